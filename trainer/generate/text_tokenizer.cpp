#include "trainer/generate/text_tokenizer.h"

#include <stdexcept>

#include "indexed_dataset/base/storage/file_io.h"
#include "tokenizer/formats/load_gpt2.h"
#include "trainer/model_tool/hf_folder.h"

namespace weft {

void TokenizerOptions::declare(OptionSet& options) {
  options.text("--vocab-file", vocab_file,
               "vocab.json; default: the one that the model's data was made with");
  options.text("--merge-file", merge_file, "merges.txt, with --vocab-file");
}

void TokenizerOptions::validate(OptionSet& options) const {
  if (vocab_file.empty() != merge_file.empty())
    options.problem("--vocab-file and --merge-file belong together: give both or none");
}

std::shared_ptr<const Vocabulary> vocabulary_of(const StoredModel& model,
                                                const TokenizerOptions& given) {
  const RunVocabulary& known = model.vocabulary();
  TokenizerFiles files = gpt2_files(given.vocab_file, given.merge_file);
  if (files.empty()) {
    CheckpointInfo info;
    info.data.vocabulary = known;
    files = find_tokenizer_files(info);
  }
  files = with_checksums(files);
  const std::string& vocab_json = files.files[0].path;
  if (!known.tokenizer.empty() && are_different(known.tokenizer, files)) {
    throw std::invalid_argument(vocab_json +
                                " is not the vocabulary that the model's data was made "
                                "with (its SHA-256 differs): give that --vocab-file and "
                                "--merge-file");
  }
  const std::string vocabulary = read_file(vocab_json), merges = read_file(files.files[1].path);
  const auto loaded = load_gpt2({vocab_json, vocabulary}, {files.files[1].path, merges});
  const int64_t rows = model.shape().vocab_size;
  if (loaded->size() > rows || (loaded->size() < rows && known.tokenizer.empty())) {
    throw std::invalid_argument(vocab_json + " has " + std::to_string(loaded->size()) +
                                " tokens, the model " + std::to_string(rows) +
                                ": give the --vocab-file and --merge-file that its dataset was "
                                "made with");
  }
  return loaded;
}

}  // namespace weft
