#include "indexed_dataset/order/blends/data_options.h"

#include <charconv>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/whole_files.h"

namespace weft {

void DataOptions::declare(OptionSet& options) {
  options.texts("--data-path", paths.data_path,
                "PREFIX of a dataset; or a blend: WEIGHT PREFIX WEIGHT PREFIX ..., or PREFIX "
                "PREFIX ... in proportion to their sizes");
  options.text("--data-args-path", paths.data_args_path, "a file with the values of --data-path");
  options.texts("--train-data-path", paths.train_data_path, "dataset or blend of training alone");
  options.texts("--valid-data-path", paths.valid_data_path, "of validation alone");
  options.texts("--test-data-path", paths.test_data_path, "of the test alone");
  options.text("--per-split-data-args-path", paths.per_split_data_args_path,
               "JSON file with the values of the three");
  options.texts("--train-weighted-split-paths", paths.train_weighted_split_paths,
                "\"NAME: WEIGHT BEGIN:END PREFIX, ...\", as in bigscience's Megatron-DeepSpeed");
  options.texts("--valid-weighted-split-paths", paths.valid_weighted_split_paths,
                "the same for validation, one for each group");
  options.texts("--test-weighted-split-paths", paths.test_weighted_split_paths,
                "the same for the test");
  options.text("--train-weighted-split-paths-path", paths.train_weighted_split_paths_path,
               "a file with the values of --train-weighted-split-paths, each in double quotes");
  options.text("--valid-weighted-split-paths-path", paths.valid_weighted_split_paths_path,
               "the same for validation");
  options.text("--test-weighted-split-paths-path", paths.test_weighted_split_paths_path,
               "the same for the test");
  options.choice("--sample-order", order, {std::begin(kOrderKinds), std::end(kOrderKinds)},
                 "the program whose order is built, or sequential: nothing is shuffled");
  options.text("--mid-level-dataset-surplus", surplus,
               "share of samples that are built of each dataset of a blend beyond its weight");
  options.text("--data-cache-path", cache_path, "folder of index caches");
  options.text(
      "--dataset-description", dataset_description,
      "a ...-description.txt that Megatron-Core has left for any dataset: index caches get the names "
      "that go with its tokenizer, so that Megatron-Core finds them (0.15 and later)");
}

void DataOptions::validate(OptionSet& options) const {
  options.check([this] { surplus_value(); });
  if (!dataset_description.empty() && rules_of(order).precedes_core) {
    options.problem(
        "--dataset-description is of Megatron-Core: names of index caches of --sample-order " +
        std::string(name_of(order)) + " do not tell the tokenizer, leave it out");
  }
}

namespace {

using Json = nlohmann::ordered_json;

// The library would round an integer beyond 64 bits, and the name that follows from it would never be found.
class WholeIntegers final : public DocumentLimits<Json> {
 public:
  bool number_float(double, const std::string& text) override {
    if (text.find_first_of(".eE") == std::string::npos)
      throw std::runtime_error("the integer " + text + " in it does not fit 64 bits");
    return true;
  }
};

// Returns the tokenizer of a description. Throws std::runtime_error or a JSON exception for a text that is none.
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

std::string DataOptions::tokenizer_text() const {
  if (dataset_description.empty()) return "";
  std::string problem;
  const std::string text = read_regular_file(dataset_description);
  try {
    return tokenizer_of(text).dump();
  } catch (const Json::exception& error) {
    problem = error.what();
  } catch (const std::runtime_error& error) {
    problem = error.what();
  }
  throw std::invalid_argument(
      "--dataset-description " + dataset_description +
      ": it is no description of a dataset with a tokenizer (" + problem +
      "); give a ...-GPTDataset-train-description.txt of Megatron-Core's --data-cache-path");
}

double DataOptions::surplus_value() const {
  double value = 0;
  const auto [end, error] = std::from_chars(surplus.data(), surplus.data() + surplus.size(), value);
  if (error != std::errc() || end != surplus.data() + surplus.size() || !(value >= 0) ||
      !std::isfinite(value)) {
    throw std::invalid_argument("--mid-level-dataset-surplus " + surplus +
                                ": it must be a number, 0 or more");
  }
  return value;
}

}  // namespace weft
