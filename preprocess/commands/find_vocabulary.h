// Finds GPT-2's vocabulary files where they usually lie, or downloads them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "preprocess/inspect/text/prefix_options.h"
#include "tokenizer/vocabulary.h"

namespace weft {

struct FoundVocabulary {
  std::shared_ptr<const Vocabulary> vocabulary;
  TokenizerFiles files;  // with checksums
};

// Loads the given files (both or none), or those in $WEFT_GPT2_DIR or ~/.cache/weft/gpt2; else
// downloads GPT-2's into ~/.cache/weft/gpt2 and checks their SHA-256, after a message. Only one
// process downloads at a time; others wait for it. Throws NetworkError that says what the user can
// do; std::runtime_error if the merges beside GPT-2's vocab.json are not GPT-2's, and what
// load_vocabulary() throws; StoppedBySignal soon after a signal that asks to stop.
FoundVocabulary find_or_download_vocabulary(const VocabularyOptions& given);

// Makes a folder for a vocabulary, and those above it. Throws std::system_error whose message
// begins with `option`.
void make_folder(const std::filesystem::path& folder, const std::string& option);

}  // namespace weft
