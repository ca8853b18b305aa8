#include "trainer/generate/text_tokenizer.h"

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/sha256.h"
#include "tokenizer/formats/load_gpt2.h"
#include "tokenizer/formats/load_tokenizer.h"
#include "trainer/model_tool/hf_folder.h"

namespace weft {

void TokenizerOptions::declare(OptionSet& options) {
  options.text("--tokenizer", tokenizer,
               "tokenizer.json, tiktoken rank file or tekken.json of the model");
  options.text("--vocab-file", vocab_file,
               "vocab.json; default: the one that the model's data was made with");
  options.text("--merge-file", merge_file, "merges.txt, with --vocab-file");
}

void TokenizerOptions::validate(OptionSet& options) const {
  if (vocab_file.empty() != merge_file.empty())
    options.problem("--vocab-file and --merge-file belong together: give both or none");
  if (!tokenizer.empty() && !vocab_file.empty())
    options.problem("--tokenizer and --vocab-file name two tokenizers: give one");
}

namespace {

std::shared_ptr<const Vocabulary> load_one_file(const std::string& path,
                                                const std::string& pattern = "") {
  const std::string bytes = read_file(path);
  return load_tokenizer({path, bytes}, {.sha256 = sha256_of(bytes), .tiktoken_pattern = pattern});
}

std::shared_ptr<const Vocabulary> load_known_files(const RunVocabulary& known,
                                                   const TokenizerOptions& given) {
  TokenizerFiles files = gpt2_files(given.vocab_file, given.merge_file);
  if (files.empty()) {
    CheckpointInfo info;
    info.data.vocabulary = known;
    files = find_tokenizer_files(info);
  }
  files = with_checksums(files);
  const std::string& vocab_json = files.files[0].path;
  if (!known.tokenizer.empty() && are_different(known.tokenizer, files)) {
    throw UsageError(vocab_json +
                     " is not the vocabulary that the model's data was made with (its "
                     "SHA-256 differs): give that --vocab-file and --merge-file");
  }
  if (!is_gpt2(files)) return load_one_file(vocab_json, tiktoken_pattern(files));
  const std::string& merges_txt = files.files[1].path;
  const std::string vocabulary = read_file(vocab_json), merges = read_file(merges_txt);
  return load_gpt2({vocab_json, vocabulary}, {merges_txt, merges});
}

}  // namespace

std::shared_ptr<const Vocabulary> vocabulary_of(const RunVocabulary& known, int64_t rows,
                                                const TokenizerOptions& given) {
  const bool is_one_file = !given.tokenizer.empty();
  const auto loaded = is_one_file ? load_one_file(given.tokenizer) : load_known_files(known, given);
  const bool may_be_smaller = is_one_file || !known.tokenizer.empty();
  if (loaded->size() > rows || (loaded->size() < rows && !may_be_smaller)) {
    const std::string& named = is_one_file ? given.tokenizer : given.vocab_file;
    throw UsageError((named.empty() ? std::string("vocab.json") : named) + " has " +
                     std::to_string(loaded->size()) + " tokens, the model " + std::to_string(rows) +
                     ": give the tokenizer that its dataset was made with");
  }
  return loaded;
}

}  // namespace weft
