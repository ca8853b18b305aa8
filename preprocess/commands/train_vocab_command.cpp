// weft-data train-vocab learns a vocabulary from JSONL files.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/stop_signal.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "preprocess/commands/commands.h"
#include "preprocess/commands/find_vocabulary.h"
#include "preprocess/commands/store_options.h"
#include "preprocess/commands/text_options.h"
#include "preprocess/documents/bad_lines.h"
#include "preprocess/documents/each_document.h"
#include "preprocess/documents/key_path.h"
#include "preprocess/inputs/find_inputs.h"
#include "preprocess/stream/byte_source.h"
#include "tokenizer/formats/known_patterns.h"
#include "tokenizer/formats/learned_files.h"
#include "tokenizer/train_vocabulary.h"

namespace weft {
namespace {

class TrainVocabCommand final : public Command {
 public:
  TrainVocabCommand()
      : Command("train-vocab", "learn a byte-level BPE vocabulary from JSONL files",
                "weft-data train-vocab --input corpus.jsonl.zst --vocab-size 32_000 "
                "--output vocabulary") {}

  void declare(OptionSet& options) override {
    options.texts("--input", inputs_.names,
                  "JSONL files (or --input-format), folders of them, quoted patterns, datasets of "
                  "the Hugging Face hub (hf://datasets/OWNER/NAME/PATH) or of buckets "
                  "(s3://BUCKET/KEY), '-' is standard input; compressed ones are decompressed");
    options.texts("--input-list", inputs_.lists,
                  "files with a name of an input on each line, relative to where the list lies");
    declare_store_options(options, inputs_.http.s3);
    text_.declare(options);
    options.text(
        "--json-key", json_key_,
        "key whose strings are learned from; meta.text is the key text within meta where a "
        "line has no key meta.text");
    options.integer("--vocab-size", vocab_size_, "entries, 256 bytes and special tokens included",
                    257, 1 << 24);
    options.text("--output", output_, "folder for the files; made if it is not there");
    options.text("--pattern", pattern_,
                 "writes a tokenizer.json that cuts text by this pattern: " + names_of_patterns() +
                     "; without it: vocab.json and merges.txt, with GPT-2's");
    options.texts("--special-tokens", special_tokens_,
                  "texts of the special tokens, which get the last ids in this order; needs "
                  "--pattern; without it: <|endoftext|>");
    options.integer("--min-frequency", min_frequency_, "pairs that occur less often are not merged",
                    1);
    options.flag("--overwrite", overwrite_, "replace another vocabulary in that folder");
  }

  void validate(OptionSet& options) const override {
    if (const std::string problem = problem_of_inputs(inputs_); !problem.empty())
      options.problem(problem);
    validate_store_options(options, inputs_.http.s3);
    text_.validate(options, {"--json-key"});
    options.check([&] { (void)nested_path(json_key_, "--json-key"); });
    if (output_.empty()) options.problem("--output is required");
    std::error_code error;
    if (std::filesystem::exists(output_, error) && !std::filesystem::is_directory(output_, error))
      options.problem("--output: '" + output_ + "' is a file; give a folder");
    if (vocab_size_ == 0) options.problem("--vocab-size is required");
    if (!pattern_.empty())
      options.check([&] { as_usage([&] { return pattern_named(pattern_); }); });
    if (!special_tokens_.empty() && pattern_.empty())
      options.problem(
          "--special-tokens needs --pattern: GPT-2's two files have <|endoftext|> only");
    for (const std::string& token : special_tokens_) {
      if (num_valid_utf8_bytes(token) != token.size())
        options.problem("--special-tokens: '" + escape_for_terminal(token) + "' is not UTF-8");
    }
    // Learning from nothing checks the rest before the input is read.
    if (vocab_size_ != 0) {
      options.check([&] {
        as_usage([&] { return VocabularyTrainer().train(vocab_size_, 1, special_tokens()); });
      });
    }
  }

  int run(const OptionSet&) override {
    install_stop_signals();
    const SplitKind pattern = pattern_.empty() ? SplitKind::kGpt2 : pattern_named(pattern_);
    VocabularyTrainer trainer(pattern);
    BadLineCounts bad_lines;
    std::string first_bad_line;
    int64_t num_documents = 0;
    const auto learn_from = [&](std::string_view text) {
      trainer.add_text(text);
      ++num_documents;
    };
    try {
      inputs_.format = text_.format;
      StoredInputs stored(inputs_.http, stop_flag());
      const FoundInputs found = find_inputs(inputs_, stored, stop_flag());
      TokenizeRules rules;
      rules.json_keys = {json_key_};
      rules.split_texts_at = text_.split_texts_at();
      for (const std::string& note : found.notes) print_message("note: " + note);
      for (const std::string& name : found.names) {
        for_each_document(*make_input(name, inputs_.http), rules, stop_flag(), learn_from,
                          bad_lines, first_bad_line);
      }
    } catch (const ReadCancelled&) {
      throw StoppedBySignal(stop_signal());
    }
    if (num_documents == 0)
      throw std::runtime_error(
          "no document in the input, " + bad_lines.summary() +
          (first_bad_line.empty() ? "" : "; the first one: " + first_bad_line));
    const LearnedVocabulary learned = trainer.train(vocab_size_, min_frequency_, special_tokens());
    const std::vector<LearnedFile> files =
        pattern_.empty()
            ? std::vector<LearnedFile>{{"merges.txt", merges_txt_of(learned)},
                                       {"vocab.json", vocab_json_of(learned)}}
            : std::vector<LearnedFile>{{"tokenizer.json", tokenizer_json_of(learned, pattern)}};
    const std::filesystem::path folder = output_;
    make_folder(folder, "--output");
    if (!are_there_already(folder, files)) {
      for (const LearnedFile& file : files) write_file_atomically(folder / file.name, file.text);
    }
    fmt::print("{}: {} entries learned from {} documents, {} distinct words; {}\n",
               escape_message(folder.string()), learned.size(), num_documents,
               trainer.num_distinct_words(), bad_lines.summary());
    return 0;
  }

 private:
  struct LearnedFile {
    const char* name;
    std::string text;
  };

  std::vector<std::string> special_tokens() const {
    return special_tokens_.empty() ? std::vector{std::string(kEndOfText)} : special_tokens_;
  }

  // True if all files have the contents that were learned. Throws UsageError if one has others and
  // may not be replaced.
  bool are_there_already(const std::filesystem::path& folder,
                         const std::vector<LearnedFile>& files) const {
    bool are_there = true;
    std::string others;
    for (const LearnedFile& learned : files) {
      const std::filesystem::path file = folder / learned.name;
      const bool exists = std::filesystem::exists(file);
      const bool is_equal = exists && read_file(file) == learned.text;
      if (exists && !is_equal) others += (others.empty() ? "'" : ", '") + file.string() + "'";
      are_there = are_there && is_equal;
    }
    if (!others.empty() && !overwrite_) {
      throw UsageError(
          others +
          ": another vocabulary, datasets made with it could no longer be shown as text; give "
          "--overwrite to replace it, or another --output");
    }
    return are_there;
  }

  GivenInputs inputs_;
  TextOptions text_;
  std::string json_key_ = "text", output_, pattern_;
  std::vector<std::string> special_tokens_;
  int64_t vocab_size_ = 0, min_frequency_ = 2;
  bool overwrite_ = false;
};

}  // namespace

std::unique_ptr<Command> make_train_vocab_command() {
  return std::make_unique<TrainVocabCommand>();
}

}  // namespace weft
