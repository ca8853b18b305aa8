#include "trainer/config/pipeline_partition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

constexpr std::string_view kType = "type:";

struct Weights {
  double embedding = 0, layer = 1, head = 0;
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

[[noreturn]] void throw_unknown(std::string_view method) {
  throw UsageError(fmt::format(
      "--pp-partition-method {} is none of uniform, type:transformer, type:transformer|embedding, "
      "parameters, cost, or the numbers of layers of all stages, such as 5,6,6,5",
      method));
}

Weights weights_of(std::string_view method, const ModelShape& shape) {
  const auto C = static_cast<double>(shape.hidden_size);
  const auto words = static_cast<double>(shape.padded_vocab_size) * C;
  if (method == "parameters") {
    const double positions =
        shape.has_position_table ? static_cast<double>(shape.max_positions) : 0;
    const double norm = shape.has_embedding_norm ? 2 : 0;
    return {.embedding = words + (positions + norm) * C,
            .layer = static_cast<double>(shape.num_layer_parameters()),
            .head = words + static_cast<double>(shape.num_norm_parameters(shape.hidden_size))};
  }
  if (method == "cost") return {.layer = layer_multiplications(shape), .head = words};
  if (!method.starts_with(kType)) throw_unknown(method);
  bool has_layers = false, has_ends = false;
  for (const std::string_view type : split(method.substr(kType.size()), '|')) {
    if (type != "transformer" && type != "embedding") throw_unknown(method);
    (type == "transformer" ? has_layers : has_ends) = true;
  }
  if (!has_layers) throw_unknown(method);
  return has_ends ? Weights{1, 1, 1} : Weights{};
}

std::vector<int64_t> balanced(const Weights& weights, int64_t num_stages, int64_t num_layers) {
  std::vector<double> loads(static_cast<size_t>(num_stages));
  loads.front() += weights.embedding;
  loads.back() += weights.head;
  std::vector<int64_t> layers(loads.size());
  for (int64_t i = 0; i < num_layers; ++i) {
    const auto least = std::min_element(loads.rbegin(), loads.rend());
    *least += weights.layer;
    layers[static_cast<size_t>(loads.rend() - least - 1)] += 1;
  }
  return layers;
}

// The flags that tell the number of stages.
std::string name_of_stages(int64_t num_ranks, int64_t num_virtual_stages) {
  const std::string ranks = fmt::format("--pipeline-model-parallel-size {}", num_ranks);
  if (num_virtual_stages == 1) return ranks;
  return fmt::format("{} times {} virtual stages", ranks, num_virtual_stages);
}

std::vector<int64_t> given(std::string_view numbers, int64_t num_stages, int64_t num_layers,
                           const std::string& stages) {
  std::vector<int64_t> layers;
  for (const std::string_view number : split(numbers, ',')) {
    int64_t value = -1;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || end != number.data() + number.size() || value < 0 ||
        value > num_layers) {
      throw_unknown(numbers);
    }
    layers.push_back(value);
  }
  const int64_t sum = std::accumulate(layers.begin(), layers.end(), int64_t{0});
  if (static_cast<int64_t>(layers.size()) == num_stages && sum == num_layers) return layers;
  throw UsageError(
      fmt::format("--pp-partition-method {}: {} layers on {} stages are not --num-layers {} on {}; "
                  "change one of them",
                  numbers, sum, layers.size(), num_layers, stages));
}

// One rank's layers, at either end, are given; the ranks between share the rest.
std::vector<int64_t> layers_with_given_ends(const Config& c) {
  const int64_t pp = c.pipeline_model_parallel_size, chunks = c.num_virtual_stages();
  const auto &first = c.decoder_first_pipeline_num_layers,
             &last = c.decoder_last_pipeline_num_layers;
  const int64_t between = pp - (first ? 1 : 0) - (last ? 1 : 0),
                rest = c.num_layers - first.value_or(0) - last.value_or(0);
  const int64_t each = between > 0 ? rest / between : 0;
  const auto is_shared = [chunks](int64_t layers) { return layers >= 0 && layers % chunks == 0; };
  if (rest < 0 || (between > 0 ? rest % between : rest) != 0 || !is_shared(each) ||
      !is_shared(first.value_or(0)) || !is_shared(last.value_or(0))) {
    throw UsageError(fmt::format(
        "--decoder-first-pipeline-num-layers {} and --decoder-last-pipeline-num-layers {} leave {} of "
        "{} layers to {} pipeline ranks with {} virtual stages each, which cannot share them alike",
        first.value_or(0), last.value_or(0), rest, c.num_layers, between, chunks));
  }
  std::vector<int64_t> layers;
  for (int64_t stage = 0; stage < pp * chunks; ++stage) {
    const int64_t rank = stage % pp;
    layers.push_back((first && rank == 0       ? *first
                      : last && rank + 1 == pp ? *last
                                               : each) /
                     chunks);
  }
  return layers;
}

// The embedding and the head count as layers of the first and the last stage.
std::vector<int64_t> layers_beside_ends(const Config& c) {
  const int64_t embedding = c.account_for_embedding_in_pipeline_split ? 1 : 0,
                head = c.account_for_loss_in_pipeline_split ? 1 : 0;
  const int64_t stages = c.pipeline_model_parallel_size * c.num_virtual_stages(),
                total = c.num_layers + embedding + head;
  if (total % stages != 0) {
    throw UsageError(fmt::format(
        "--account-for-embedding-in-pipeline-split, --account-for-loss-in-pipeline-split: {} layers, "
        "the ends counted, are not a multiple of {} stages",
        total, stages));
  }
  std::vector<int64_t> layers(static_cast<size_t>(stages), total / stages);
  layers.front() -= embedding;
  layers.back() -= head;
  return layers;
}

}  // namespace

std::string partition_method(const Config& c) {
  const bool has_ends = c.decoder_first_pipeline_num_layers || c.decoder_last_pipeline_num_layers;
  const bool counts_ends =
      c.account_for_embedding_in_pipeline_split || c.account_for_loss_in_pipeline_split;
  if (!has_ends && !counts_ends) return c.pp_partition_method;
  if (c.pp_partition_method != "uniform" || (has_ends && counts_ends)) {
    throw UsageError(
        "--pp-partition-method, --decoder-first/last-pipeline-num-layers and "
        "--account-for-embedding/loss-in-pipeline-split exclude each other");
  }
  if (c.pipeline_model_parallel_size < 2) return c.pp_partition_method;
  return fmt::format("{}",
                     fmt::join(has_ends ? layers_with_given_ends(c) : layers_beside_ends(c), ","));
}

std::vector<int64_t> layers_of_stages(std::string_view method, int64_t num_ranks,
                                      const ModelShape& shape, int64_t num_virtual_stages) {
  const int64_t L = shape.num_layers, num_stages = num_ranks * num_virtual_stages;
  const std::string stages = name_of_stages(num_ranks, num_virtual_stages);
  if (num_stages > L + 2) {
    throw UsageError(fmt::format(
        "{} needs more than --num-layers {}: only the first and the last stage may have no layer",
        stages, L));
  }
  std::vector<int64_t> layers;
  if (method == "uniform") {
    if (num_stages > L) {
      throw UsageError(fmt::format(
          "--num-layers {} cannot be shared by {}: give at most {} stages, or --pp-partition-method "
          "0,... with a first or last stage that has no layer",
          L, stages, L));
    }
    if (L % num_stages != 0) {
      throw UsageError(
          fmt::format("--num-layers {} is not a multiple of {}: change one of them, or give "
                      "--pp-partition-method type:transformer, whose stages differ by a layer",
                      L, stages));
    }
    layers.assign(static_cast<size_t>(num_stages), L / num_stages);
  } else if (!method.empty() && method.front() >= '0' && method.front() <= '9') {
    layers = given(method, num_stages, L, stages);
  } else {
    layers = balanced(weights_of(method, shape), num_stages, L);
  }
  for (int64_t stage = 0; stage < num_stages; ++stage) {
    const bool is_end = stage == 0 || stage + 1 == num_stages;
    if (layers[static_cast<size_t>(stage)] > 0 || (is_end && num_stages > 1)) continue;
    throw UsageError(fmt::format(
        "stage {} of {} has none of --num-layers {}: only the first and the last one may have no "
        "layer; give fewer stages or another --pp-partition-method",
        stage, stages, L));
  }
  return layers;
}

std::string text_of_stages(const std::vector<int64_t>& stage_layers, int64_t num_ranks) {
  std::string text;
  int64_t first = 0;
  const auto ranks = static_cast<size_t>(num_ranks);
  for (size_t stage = 0; stage < stage_layers.size(); ++stage) {
    const int64_t count = stage_layers[stage];
    std::string what = stage == 0 ? "embedding" : "";
    const auto add = [&](const std::string& part) { what += (what.empty() ? "" : ", ") + part; };
    if (count == 1) add(fmt::format("layer {}", first));
    if (count > 1) add(fmt::format("layers {}-{}", first, first + count - 1));
    if (stage + 1 == stage_layers.size()) add("head");
    const std::string rank =
        stage_layers.size() > ranks ? fmt::format(" on pipeline rank {}", stage % ranks) : "";
    text += fmt::format("stage={} layers={} ({}){}\n", stage, count, what, rank);
    first += count;
  }
  return text;
}

}  // namespace weft
