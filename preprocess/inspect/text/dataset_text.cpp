#include "preprocess/inspect/text/dataset_text.h"

#include <system_error>

#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "preprocess/vocabulary/load_vocabulary.h"

namespace weft {

namespace {

bool are_files_of(const DatasetVocabulary& vocabulary, const TokenizerFiles& files) {
  std::error_code ignored;
  for (const TokenizerFile& file : files.files) {
    if (!std::filesystem::exists(file.path, ignored)) return false;
  }
  return id_of(with_checksums(files)) == id_of(vocabulary.tokenizer);
}

}  // namespace

std::shared_ptr<const Vocabulary> find_dataset_vocabulary(const std::filesystem::path& prefix,
                                                          const TokenizerFiles& given) {
  const auto files = find_tokenizer_files(given);
  const auto manifest = given.empty() ? read_dataset_manifest(prefix) : std::nullopt;
  // A merged dataset whose parts had no manifest knows no vocabulary.
  if (manifest && manifest->vocabulary.tokenizer.has_checksums()) {
    const TokenizerFiles& of_manifest = manifest->vocabulary.tokenizer;
    if (are_files_of(manifest->vocabulary, of_manifest)) return load_vocabulary(of_manifest);
    if (files && !are_files_of(manifest->vocabulary, *files)) return nullptr;
  }
  return files ? load_vocabulary(*files) : nullptr;
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
