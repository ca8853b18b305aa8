// Leads from the tokens of a dataset back to text: finds its vocabulary, and decodes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "tokenizer/vocabulary.h"

namespace weft {

// Loads the given files; else those named in the dataset's manifest, or else those of
// find_tokenizer_files(), but only if their checksums are those in the manifest: another
// vocabulary would make other text of the same ids. Without a manifest the latter are taken as they
// are. Returns null if there are none, and downloads nothing. Throws what load_vocabulary throws.
std::shared_ptr<const Vocabulary> find_dataset_vocabulary(const std::filesystem::path& prefix,
                                                          const TokenizerFiles& given);

// Returns the bytes of `ids`, which may end within a character. An id that the vocabulary does not
// have becomes "<id N>".
std::string decode_ids(const std::vector<int32_t>& ids, const Vocabulary& vocabulary);

// The same behind `text`.
void append_decoded(std::string& text, std::span<const int32_t> ids, const Vocabulary& vocabulary);

}  // namespace weft
