#include "indexed_dataset/run_record/order_options.h"

#include <charconv>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/whole_files.h"
#include "indexed_dataset/order/batches/batch_size_problems.h"

namespace weft {
namespace {

// A run that is told by hand has none of these; its manifest or --megatron-args tells them.
bool is_told_by_hand(const std::string& flag) {
  static const std::set<std::string> kOthers = {"dataloader-type",         "no-data-sharding",
                                                "full-validation",         "curriculum-metrics",
                                                "curriculum-metrics-seed", "unsee"};
  return !kOthers.contains(flag);
}

// Declares options as weft-data has them.
class Declare {
 public:
  explicit Declare(OptionSet& options) : options_(options) {}

  void operator()(const std::string& name, std::string& value, const char* help) const {
    options_.text(name, value, help);
  }
  void operator()(const std::string& name, std::vector<std::string>& value,
                  const char* help) const {
    options_.texts(name, value, help);
  }
  void operator()(const std::string& name, OrderKind& value, const char* help) const {
    options_.choice(name, value, {std::begin(kOrderKinds), std::end(kOrderKinds)}, help);
  }
  void operator()(const std::string& name, std::vector<int64_t>& value, const char* help) const {
    options_.integers(name, value, 3, help);
  }
  void operator()(const std::string& name, std::optional<int64_t>& value, const char* help) const {
    options_.integer(name, value, help, 1);
  }
  void operator()(const std::string& name, int64_t& value, const char* help) const {
    options_.integer(name, value, help, name == "--eval-interval" ? 1 : 0,
                     name == "--seed" ? UINT32_MAX : INT64_MAX);
  }
  void operator()(const std::string&, bool&, const char*) const {}    // these are not told by hand
  void operator()(const std::string&, double&, const char*) const {}  // it is read as a text

 private:
  OptionSet& options_;
};

using Json = nlohmann::ordered_json;

// The library would round an integer beyond 64 bits, and the name that follows from it would never
// be found.
class WholeIntegers final : public DocumentLimits<Json> {
 public:
  bool number_float(double, const std::string& text) override {
    if (text.find_first_of(".eE") == std::string::npos)
      throw std::runtime_error("the integer " + text + " in it does not fit 64 bits");
    return true;
  }
};

// Returns the tokenizer of a description. Throws std::runtime_error or a JSON exception for a text
// that is none.
Json tokenizer_of(const std::string& text) {
  WholeIntegers check;
  Json::sax_parse(text, &check);
  Json description = Json::parse(text);
  // That of a blend tells the tokenizer of each of its datasets.
  if (description.is_object() && description.contains("datasets"))
    description = Json(description["datasets"].at(0));
  for (const char* key : {"class", "dataset_path", "index_split", "sequence_length"}) {
    if (!description.is_object() || !description.contains(key))
      throw std::runtime_error("it has no \"" + std::string(key) + "\"");
  }
  const auto tokenizer = description.find("tokenizer");
  if (tokenizer == description.end() || !tokenizer->is_object() || tokenizer->empty())
    throw std::runtime_error("it has no object \"tokenizer\"");
  return *tokenizer;
}

}  // namespace

void OrderOptions::declare(OptionSet& options, bool ranks) {
  const Declare declare(options);
  const auto declare_field = [&](const auto& field, auto& value) {
    if (!is_told_by_hand(field.flag)) return;
    const std::string flag = field.flag, name = "--" + flag;
    if (flag == "seq-length") {
      options.integer(name, seq_length_, field.help, 1, INT32_MAX - 1);
    } else if (flag == "mid-level-dataset-surplus") {
      options.text(name, surplus_, field.help);
    } else if (flag == "global-batch-size") {
      declare(name, value, "samples per step");
    } else if (flag == "micro-batch-size") {
      if (ranks) options.integer(name, micro_batch_size_, field.help, 1);
    } else {
      declare(name, value, field.help);
    }
  };
  visit_fields(kDataPathFields, declare_field, order_.paths);
  visit_fields(kSampleFields, declare_field, order_);
  if (ranks) {
    options.integer("--data-parallel-size", order_.data_parallel_size,
                    "number of data-parallel ranks, as for training", 1);
  }
  options.text("--data-cache-path", order_.cache_path, "folder of index caches");
  options.text(
      "--dataset-description", dataset_description_,
      "a ...-description.txt that Megatron-Core has left for any dataset: index caches get the names "
      "that go with its tokenizer, so that Megatron-Core finds them (0.15 and later)");
}

void OrderOptions::validate_values(OptionSet& options) const {
  options.check([this] { surplus(); });
  if (!dataset_description_.empty() && rules_of(order_.sample_order).precedes_core) {
    options.problem(
        "--dataset-description is of Megatron-Core: names of index caches of --sample-order " +
        std::string(name_of(order_.sample_order)) + " do not tell the tokenizer, leave it out");
  }
}

void OrderOptions::validate(OptionSet& options, bool needs_batch) const {
  if (!seq_length_) options.problem("--seq-length is required without --run");
  if (order_.train_samples.has_value() == order_.train_iters.has_value()) {
    options.problem(
        "give either --train-samples or --train-iters, as for training: the sample order depends "
        "on it");
  }
  if (!order_.rampup_batch_size.empty() && !order_.global_batch_size)
    options.problem("--rampup-batch-size needs --global-batch-size");
  if (seq_length_) options.check([&] { check_batch_sizes(options); });
  if ((needs_batch || order_.train_iters) && !order_.global_batch_size &&
      order_.step_batch_size_schedule.empty()) {
    options.problem(
        "--global-batch-size is needed with --iteration, --train-iters, and for valid and test");
  }
}

// Refuses the sizes that weft-train refuses. Throws for a schedule that is none.
void OrderOptions::check_batch_sizes(OptionSet& options) const {
  for (const std::string& problem :
       batch_size_problems({.global_batch_size = order_.global_batch_size,
       .rampup_batch_size = order_.rampup_batch_size,
       .step_batch_size_schedule = order_.step_batch_size_schedule,
       .sequence_length = *seq_length_,
       .micro_batch_size = micro_batch_size_,
       .data_parallel_size = order_.data_parallel_size}))
    options.problem(problem);
}

SampleOrder OrderOptions::resolved() const {
  SampleOrder order = order_;
  order.seq_length = seq_length_.value_or(0);
  order.micro_batch_size = micro_batch_size_.value_or(0);
  order.mid_level_dataset_surplus = surplus();
  order.tokenizer_text = tokenizer_text();
  derive_order(order);
  order.blends = resolve_data_paths(order.paths);
  return order;
}

std::string OrderOptions::tokenizer_text() const {
  if (dataset_description_.empty()) return "";
  std::string problem;
  const std::string text = read_regular_file(dataset_description_);
  try {
    return tokenizer_of(text).dump();
  } catch (const Json::exception& error) {
    problem = error.what();
  } catch (const std::runtime_error& error) {
    problem = error.what();
  }
  throw UsageError(
      "--dataset-description " + dataset_description_ +
      ": it is no description of a dataset with a tokenizer (" + problem +
      "); give a ...-GPTDataset-train-description.txt of Megatron-Core's --data-cache-path");
}

double OrderOptions::surplus() const {
  double value = 0;
  const auto [end, error] =
      std::from_chars(surplus_.data(), surplus_.data() + surplus_.size(), value);
  if (error != std::errc() || end != surplus_.data() + surplus_.size() || !(value >= 0) ||
      !std::isfinite(value)) {
    throw UsageError("--mid-level-dataset-surplus " + surplus_ +
                     ": it must be a number, 0 or more");
  }
  return value;
}

}  // namespace weft
