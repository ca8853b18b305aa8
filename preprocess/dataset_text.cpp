#include "preprocess/dataset_text.h"

#include <system_error>

#include "preprocess/dataset_manifest.h"

namespace weft {

std::filesystem::path without_suffix(const std::string& prefix) {
  if (prefix.ends_with(".bin") || prefix.ends_with(".idx"))
    return prefix.substr(0, prefix.size() - 4);
  return prefix;
}

std::shared_ptr<const Vocabulary> find_dataset_vocabulary(const std::filesystem::path& prefix,
                                                          const std::filesystem::path& vocab_file,
                                                          const std::filesystem::path& merge_file) {
  if (vocab_file.empty()) {
    std::error_code ignored;
    const auto manifest = read_manifest(prefix);
    if (manifest && std::filesystem::exists(manifest->vocab_file, ignored) &&
        std::filesystem::exists(manifest->merge_file, ignored)) {
      return Vocabulary::load(manifest->vocab_file, manifest->merge_file);
    }
  }
  const auto files = find_vocabulary_files(vocab_file, merge_file);
  return files ? Vocabulary::load(files->vocab_file, files->merge_file) : nullptr;
}

std::string decode_ids(const std::vector<int32_t>& ids, const Vocabulary& vocabulary) {
  std::string text;
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocabulary.size()) {
      text += vocabulary.bytes(id);
    } else {
      text += "<id " + std::to_string(id) + ">";
    }
  }
  return text;
}

}  // namespace weft
