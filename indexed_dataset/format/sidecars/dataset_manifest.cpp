#include "indexed_dataset/format/sidecars/dataset_manifest.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/file_io.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// No manifest may count more documents or tokens: far fewer than would overflow when counted in
// bytes.
constexpr int64_t kMaxCount = int64_t{1} << 53;

// The identity of the run as it was when the manifest was written; "" in older manifests.
std::string stored_identity(const Json& manifest) {
  if (!manifest.contains("run_options") || !manifest.contains("inputs")) return "";
  return Json{{"options", manifest["run_options"]}, {"inputs", manifest["inputs"]}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

DatasetVocabulary vocabulary_from(const Json& json) {
  DatasetVocabulary vocabulary;
  if (!json.is_object()) return vocabulary;
  if (json.contains("tokenizer")) vocabulary.tokenizer = tokenizer_files_from(json["tokenizer"]);
  if (json.contains("size") && json["size"].is_number_integer())
    vocabulary.size = std::clamp<int64_t>(json["size"].get<int64_t>(), 0, kMaxCount);
  // A token that the vocabulary does not have ends no document.
  const auto end = json.find("end_of_document");
  if (end != json.end() && end->is_number_unsigned() &&
      end->get<uint64_t>() < static_cast<uint64_t>(vocabulary.size))
    vocabulary.end_of_document = end->get<int64_t>();
  return vocabulary;
}

}  // namespace

std::filesystem::path dataset_manifest_path(const std::filesystem::path& prefix) {
  return prefix.string() + ".manifest.json";
}

Json to_json(const DatasetVocabulary& vocabulary) {
  return {{"size", vocabulary.size},
          {"tokenizer", to_json(vocabulary.tokenizer)},
          {"end_of_document",
           vocabulary.end_of_document < 0 ? Json() : Json(vocabulary.end_of_document)}};
}

DatasetVocabulary read_dataset_vocabulary(const std::filesystem::path& prefix) {
  const std::filesystem::path path = dataset_manifest_path(prefix);
  if (!std::filesystem::exists(path)) return {};
  const std::string text = read_regular_file(path);
  try {
    const Json json = parse_json<Json>(text);
    return json.is_object() ? vocabulary_from(json.value("vocabulary", Json()))
                            : DatasetVocabulary();
  } catch (const std::exception& error) {
    throw std::runtime_error(path.string() + ": not JSON: " + error.what());
  }
}

std::string StoredManifest::option(const std::string& name) const {
  const auto options = json.find("options");
  if (options == json.end() || !options->is_object()) return "";
  const auto found = options->find(name);
  return found != options->end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<StoredManifest> read_dataset_manifest(const std::filesystem::path& prefix) {
  const std::filesystem::path path = dataset_manifest_path(prefix);
  if (!std::filesystem::exists(path)) return std::nullopt;
  const std::string text = read_regular_file(path);
  try {
    StoredManifest manifest;
    manifest.json = parse_json<Json>(text);
    const Json& json = manifest.json;
    manifest.num_documents = json_integer_at(json.at("dataset"), "documents");
    manifest.num_tokens = json_integer_at(json.at("dataset"), "tokens");
    if (std::min(manifest.num_documents, manifest.num_tokens) < 0 ||
        std::max(manifest.num_documents, manifest.num_tokens) > kMaxCount) {
      throw std::runtime_error("a dataset of a size that none has");
    }
    manifest.vocabulary = vocabulary_from(json.at("vocabulary"));
    manifest.run_hash = json.value("run", "");
    manifest.run_identity = stored_identity(json);
    return manifest;
  } catch (const std::exception& error) {
    throw std::runtime_error(path.string() + ": not a manifest of weft-data (" + error.what() +
                             "); the dataset is complete without it: move it away");
  }
}

bool parse_shard(const std::string& text, int64_t& index, int64_t& count) {
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, index);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '/') return false;
  const auto second = std::from_chars(first.ptr + 1, end, count);
  return second.ec == std::errc() && second.ptr == end && index >= 0 && index < count &&
         count <= 1'000'000;
}

}  // namespace weft
