// Loads the tokenizer that is asked for, or finds GPT-2's files where they usually lie, or
// downloads them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "preprocess/inspect/text/prefix_options.h"
#include "tokenizer/vocabulary.h"

namespace weft {

struct FoundVocabulary {
  std::shared_ptr<const Vocabulary> vocabulary;
  TokenizerFiles files;  // with checksums
};

// Loads the given files, or those in $WEFT_GPT2_DIR or ~/.cache/weft/gpt2; else
// downloads GPT-2's into ~/.cache/weft/gpt2 and checks their SHA-256, after a message. Only one
// process downloads at a time; others wait for it. Throws NetworkError that says what the user can
// do; std::runtime_error if the merges beside GPT-2's vocab.json are not GPT-2's, and what
// load_vocabulary() throws; StoppedBySignal soon after a signal that asks to stop.
FoundVocabulary find_or_download_vocabulary(const VocabularyOptions& given);

// Returns what users should know of a tokenizer: its file, kind, size and pattern, the token that
// ends documents (-1: none), and notes on texts that it does not keep. It has one file.
std::vector<std::string> describe_tokenizer(const FoundVocabulary& found, int64_t end_of_document);

// Makes a folder for a vocabulary, and those above it. Throws std::system_error whose message
// begins with `option`.
void make_folder(const std::filesystem::path& folder, const std::string& option);

}  // namespace weft
