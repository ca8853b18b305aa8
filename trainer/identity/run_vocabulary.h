// Finds the vocabulary that the dataset was made with. The trainer does not tokenize: it counts the
// tokens, and keeps the checksums of the files for checkpoints and exported models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "trainer/config/config.h"

namespace weft {

// The entry of GPT-2's vocab.json that stands between documents.
inline constexpr char kGpt2EndOfDocument[] = "<|endoftext|>";

struct RunVocabulary {
  int64_t num_tokens = 0;
  std::string source;  // the origin of the number, for the log: "--vocab-size" or a path
  // The files of the tokenizer that made the dataset, with absolute paths and checksums.
  TokenizerFiles tokenizer = {};

  // The token that ends documents; -1 in imported weights. Its origin is for messages, as "the last
  // one of --vocab-size".
  int64_t end_of_document = -1;
  std::string end_of_document_source = {};
};

// Returns the number of tokens from the first of these that there is: --vocab-size; the number of
// entries of --vocab-file; "vocabulary": {"size"} of the dataset's PREFIX.manifest.json, which
// weft-data writes; the number of entries of vocab.json in vocabulary_folder(). The checksums are
// the manifest's, or else those of the files. The token that ends documents is that of
// --eod-token-id, else of the manifest, else <|endoftext|> of vocab.json,
// else the last one of the tokenizer that made the dataset, whatever --vocab-size adds to that.
// Megatron's NullTokenizer has one token more than --vocab-size, which ends documents.
//
// Throws UsageError if there is no such source, if --vocab-size is smaller than the
// vocabulary of the manifest or of --vocab-file, if --eod-token-id is not in the vocabulary, if
// --vocab-file or --merge-file is another file than the manifest says, and if the datasets of a
// blend were made with different vocabularies; std::runtime_error for a file that is no vocabulary,
// std::system_error if it cannot be read.
RunVocabulary find_run_vocabulary(const Config& config);

// Returns a warning that names the datasets of which no document, or not each one, ends with the
// end-of-document token, where the run looks for that (--eod-mask-loss, --reset-position-ids,
// --reset-attention-mask) or names it (--eod-token-id); else "". It looks at a few documents of
// each dataset. Throws UsageError where the run looks for it and none of its training
// datasets has it: the options would do nothing. Throws as DatasetReader.
std::string check_document_ends(const Config& config, const RunVocabulary& vocabulary);

// Returns the folder of GPT-2's files: $WEFT_GPT2_DIR if that is set, even where it does not exist
// (a mistyped name must not mean another vocabulary), else ~/.cache/weft/gpt2.
std::filesystem::path vocabulary_folder();

// Counts the entries of a vocab.json. Throws std::runtime_error for a file that is no vocabulary.
int64_t count_vocabulary(const std::filesystem::path& vocab_file);

// Returns the prefixes of all datasets of the run, each once, without .bin or .idx. Throws as
// resolve_data_paths().
std::vector<std::string> dataset_prefixes(const Config& config);

}  // namespace weft
