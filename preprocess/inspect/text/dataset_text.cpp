#include "preprocess/inspect/text/dataset_text.h"

#include <system_error>

#include "indexed_dataset/base/storage/sha256.h"
#include "indexed_dataset/format/sidecars/dataset_manifest.h"

namespace weft {

namespace {

bool is_vocabulary_of(const DatasetVocabulary& vocabulary, const VocabularyFiles& files) {
  std::error_code ignored;
  return std::filesystem::exists(files.vocab_file, ignored) &&
         std::filesystem::exists(files.merge_file, ignored) &&
         sha256_of_file(files.vocab_file) == vocabulary.vocab_sha256 &&
         sha256_of_file(files.merge_file) == vocabulary.merge_sha256;
}

}  // namespace

std::shared_ptr<const Vocabulary> find_dataset_vocabulary(const std::filesystem::path& prefix,
                                                          const std::filesystem::path& vocab_file,
                                                          const std::filesystem::path& merge_file) {
  const auto files = find_vocabulary_files(vocab_file, merge_file);
  const auto manifest = vocab_file.empty() ? read_dataset_manifest(prefix) : std::nullopt;
  // A merged dataset whose parts had no manifest knows no vocabulary.
  if (manifest && !manifest->vocabulary.vocab_sha256.empty()) {
    const VocabularyFiles of_manifest{manifest->vocabulary.vocab_file,
                                      manifest->vocabulary.merge_file};
    if (is_vocabulary_of(manifest->vocabulary, of_manifest))
      return Vocabulary::load(of_manifest.vocab_file, of_manifest.merge_file);
    if (files && !is_vocabulary_of(manifest->vocabulary, *files)) return nullptr;
  }
  return files ? Vocabulary::load(files->vocab_file, files->merge_file) : nullptr;
}

std::string decode_ids(const std::vector<int32_t>& ids, const Vocabulary& vocabulary) {
  std::string text;
  append_decoded(text, ids, vocabulary);
  return text;
}

void append_decoded(std::string& text, std::span<const int32_t> ids, const Vocabulary& vocabulary) {
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocabulary.size()) {
      text += vocabulary.bytes(id);
    } else {
      text += "<id " + std::to_string(id) + ">";
    }
  }
}

}  // namespace weft
