#include "indexed_dataset/run_record/manifest_order.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/order/blends/blend_json.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

std::string find_text(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? "" : found->get<std::string>();
}

// The value of one argument, which is neither absent nor null.
void read(const Json& arguments, const char* name, int64_t& value) {
  value = json_integer_at(arguments, name);
}
void read(const Json& arguments, const char* name, std::optional<int64_t>& value) {
  value = json_integer_at(arguments, name);
}
void read(const Json& arguments, const char* name, std::vector<int64_t>& value) {
  value = json_integers_at(arguments, name);
}
// Megatron writes a list; one dataset may stand alone as a text.
void read(const Json& arguments, const char* name, std::vector<std::string>& value) {
  const Json& json = arguments.at(name);
  value = json.is_string() ? std::vector{json.get<std::string>()}
                           : json.get<std::vector<std::string>>();
}
void read(const Json& arguments, const char* name, OrderKind& value) {
  const auto word = arguments.at(name).get<std::string>();
  for (const auto& [known, kind] : kOrderKinds) {
    if (word != known) continue;
    value = kind;
    return;
  }
  throw std::runtime_error("the run's --sample-order is " + word +
                           ", which this version does not know");
}
template <typename T>
void read(const Json& arguments, const char* name, T& value) {
  arguments.at(name).get_to(value);
}

// A manifest of weft-train has them all.
void read_arguments(const Json& arguments, bool has_all, SampleArguments& sample) {
  const auto read_field = [&](const auto& field, auto& value) {
    const std::string name = field.name();
    const auto found = arguments.find(name);
    if (found == arguments.end() && has_all)
      throw std::runtime_error("its arguments do not have \"" + name + "\"");
    if (found != arguments.end() && !found->is_null()) read(arguments, name.c_str(), value);
  };
  visit_sample_fields(read_field, sample);
  // Megatron derives train_iters from train_samples and keeps both: the samples were what was asked
  // for.
  if (sample.train_samples) sample.train_iters.reset();
  if (!sample.global_batch_size && sample.micro_batch_size > 0)
    sample.global_batch_size = sample.micro_batch_size;
}

// A cache is a help only: a folder that was removed since is not created anew.
std::string folder_if_there(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::is_directory(folder, error) ? folder.string() : "";
}

// One divides by these.
void check_positive(const std::optional<int64_t>& value, const char* name) {
  if (value && *value < 1)
    throw std::runtime_error(std::string(name) + " is " + std::to_string(*value));
}

void check_sizes(const SampleOrder& order) {
  check_positive(order.global_batch_size, "global_batch_size");
  check_positive(order.data_parallel_size, "data_parallel_size");
  if (order.micro_batch_size != 0) check_positive(order.micro_batch_size, "micro_batch_size");
  if (order.eval_iters != 0) check_positive(order.eval_interval, "eval_interval");
  check_positive(order.seq_length, "seq_length");
  if (!order.cyclic) return;
  check_positive(order.cyclic->micro_batch_size, "the cyclic order's micro_batch_size");
  check_positive(order.cyclic->data_parallel_size, "the cyclic order's data_parallel_size");
}

}  // namespace

SampleOrder sample_order_from(const Json& manifest) {
  const bool is_of_weft = manifest.contains("program");
  const Json& arguments = manifest.at("arguments");
  const std::filesystem::path directory = find_text(manifest, "working_directory");
  SampleOrder order;
  read_arguments(arguments, is_of_weft, order);
  order.data_parallel_size = find_json_integer(manifest, "data_parallel_size");
  check_positive(order.seq_length, "seq_length");
  derive_order(order, directory.string());
  if (is_of_weft) {
    order.blends = split_blends_from_json(manifest.at("blends"));
    const Json& samples = manifest.at("dataset_samples");
    order.asked_samples =
        DatasetTargetSizes{.train_samples = json_integer_at(samples, "train"),
                           .valid_samples = json_integer_at(samples, "validation"),
                           .test_samples = json_integer_at(samples, "test")};
    // The order keeps the sizes that it began with.
    if (order.cyclic) {
      const Json& kept = manifest.at("cyclic_order");
      order.cyclic->micro_batch_size = json_integer_at(kept, "micro_batch_size");
      order.cyclic->data_parallel_size = json_integer_at(kept, "data_parallel_size");
    }
  } else {
    order.blends = resolve_data_paths(order.paths);
  }
  resolve_prefixes(order.blends, directory);
  if (const std::string cache = find_text(arguments, "data_cache_path"); !cache.empty())
    order.cache_path = folder_if_there(directory / cache);
  order.maps_caches_only = true;
  order.tokenizer =
      gpt2_files(find_text(arguments, "vocab_file"), find_text(arguments, "merge_file"));
  check_sizes(order);
  return order;
}

}  // namespace weft
