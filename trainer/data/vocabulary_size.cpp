#include "trainer/data/vocabulary_size.h"

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "trainer/data/json_file.h"

namespace weft {

namespace {

// Returns 0 where the manifest does not tell.
int64_t size_in_manifest(const std::filesystem::path& manifest) {
  const nlohmann::json json = read_json_file(manifest);
  if (!json.is_object() || !json.contains("vocabulary")) return 0;
  const nlohmann::json& vocabulary = json["vocabulary"];
  if (!vocabulary.is_object() || !vocabulary.contains("size")) return 0;
  return vocabulary["size"].is_number_integer() ? vocabulary["size"].get<int64_t>() : 0;
}

}  // namespace

int64_t count_vocabulary(const std::filesystem::path& vocab_file) {
  const nlohmann::json json = read_json_file(vocab_file);
  if (!json.is_object() || json.empty()) {
    throw std::runtime_error(vocab_file.string() +
                             ": not a vocabulary: expected a JSON object of token: id");
  }
  return static_cast<int64_t>(json.size());
}

std::string dataset_prefix(const Config& config) {
  std::string prefix = config.data_path.empty() ? "" : config.data_path.back();
  for (const char* suffix : {".bin", ".idx"}) {
    if (prefix.ends_with(suffix)) prefix.resize(prefix.size() - 4);
  }
  return prefix;
}

std::filesystem::path vocabulary_folder() {
  if (const char* given = std::getenv("WEFT_GPT2_DIR"); given && *given) return given;
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home && *home ? home : "/") / ".cache/weft/gpt2";
}

VocabularySize find_vocabulary_size(const Config& config) {
  if (config.vocab_size) return {*config.vocab_size, "--vocab-size"};
  if (!config.vocab_file.empty()) return {count_vocabulary(config.vocab_file), config.vocab_file};
  const std::string manifest = dataset_prefix(config) + ".manifest.json";
  if (std::filesystem::exists(manifest)) {
    const int64_t size = size_in_manifest(manifest);
    if (size > 0) return {size, manifest};
  }
  const auto path = vocabulary_folder() / "vocab.json";
  if (std::filesystem::exists(path)) return {count_vocabulary(path), path.string()};
  throw std::invalid_argument(
      "the size of the vocabulary is not known: no --vocab-size, no --vocab-file, no " + manifest +
      " beside the dataset, no " + path.string() +
      " ($WEFT_GPT2_DIR, else ~/.cache/weft/gpt2); for GPT-2 give --vocab-size 50257");
}

}  // namespace weft
