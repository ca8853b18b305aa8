// From the tokens of a dataset back to text: which vocabulary, and decoding.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace weft {

// "x.bin" and "x.idx" -> "x": people paste file names where a prefix is meant.
std::filesystem::path without_suffix(const std::string& prefix);

// The given files; else those named in the dataset's manifest, or else those of
// find_vocabulary_files(), but only if their checksums are those in the manifest: another
// vocabulary would make other text of the same ids. Without a manifest the latter are taken as they
// are. Null if there are none. Nothing is downloaded. Throws as Vocabulary::load.
std::shared_ptr<const Vocabulary> find_dataset_vocabulary(const std::filesystem::path& prefix,
                                                          const std::filesystem::path& vocab_file,
                                                          const std::filesystem::path& merge_file);

// The bytes of `ids`; an id that the vocabulary does not have becomes "<id N>". May end within a
// character.
std::string decode_ids(const std::vector<int32_t>& ids, const Vocabulary& vocabulary);

}  // namespace weft
