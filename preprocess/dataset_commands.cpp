// weft-data info and verify: what a dataset holds, and whether it is sound.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/exit_code.h"
#include "indexed_dataset/reader.h"
#include "preprocess/commands.h"
#include "preprocess/dataset_manifest.h"
#include "preprocess/dataset_text.h"
#include "preprocess/terminal_text.h"

namespace weft {
namespace {

const char* name_of(TokenType type) {
  switch (type) {
    case TokenType::kUInt8:
      return "u8";
    case TokenType::kInt8:
      return "i8";
    case TokenType::kInt16:
      return "i16";
    case TokenType::kInt32:
      return "i32";
    case TokenType::kInt64:
      return "i64";
    case TokenType::kUInt16:
      return "u16";
  }
  return "?";
}

// The k-th smallest length by bisection of its value: 31 passes instead of a sorted copy of 10^9
// lengths.
int64_t kth_length(const SequenceLengths& lengths, int64_t k) {
  int64_t low = 0, high = INT32_MAX;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    int64_t num_up_to = 0;
    for (int64_t i = 0; i < lengths.size(); ++i) num_up_to += lengths[i] <= middle;
    (num_up_to > k ? high : low) = num_up_to > k ? middle : middle + 1;
  }
  return low;
}

struct PrefixOptions {
  std::string prefix, vocab_file, merge_file;

  void declare(OptionSet& options) {
    options.positional("PREFIX", prefix, "the dataset: its path without .bin and .idx");
    options.text("--vocab-file", vocab_file,
                 "vocab.json; without it: the one in the dataset's manifest");
    options.text("--merge-file", merge_file, "merges.txt");
  }
  void validate(OptionSet& options) const {
    if (prefix.empty()) options.problem("give the dataset: its path without .bin and .idx");
    if (vocab_file.empty() != merge_file.empty()) {
      options.problem("--vocab-file and --merge-file belong together: give both or none");
    }
  }
};

class InfoCommand final : public Command {
 public:
  std::string name() const override { return "info"; }
  std::string description() const override { return "print what a dataset holds"; }

  void declare(OptionSet& options) override {
    options_.declare(options);
    options.integer("--documents", num_documents_, "how many of the first documents are printed",
                    0);
  }
  void validate(OptionSet& options) const override { options_.validate(options); }

  int run(const OptionSet&) override {
    const DatasetReader reader(without_suffix(options_.prefix));
    print_counts(reader);
    const auto vocabulary =
        find_dataset_vocabulary(reader.prefix(), options_.vocab_file, options_.merge_file);
    const int64_t num_shown = std::min(num_documents_, reader.num_sequences());
    if (!vocabulary && num_shown > 0) {
      fmt::print(
          "the dataset's vocabulary was not found: documents are shown as ids (--vocab-file, "
          "--merge-file)\n");
    }
    for (int64_t i = 0; i < num_shown; ++i) print_sequence(reader, i, vocabulary.get());
    return 0;
  }

 private:
  static void print_counts(const DatasetReader& reader) {
    const int64_t num_sequences = reader.num_sequences();
    fmt::print("{}.idx: version 1, tokens are {}\n", reader.prefix().string(),
               name_of(reader.token_type()));
    fmt::print("documents: {} ({} of them empty), sequences: {}, tokens: {} ({} bytes)\n",
               reader.num_documents(), std::max<int64_t>(0, reader.num_documents() - num_sequences),
               num_sequences, reader.num_tokens(),
               reader.num_tokens() * size_bytes(reader.token_type()));
    if (num_sequences == 0) return;
    const SequenceLengths lengths = reader.lengths();
    for (int64_t i = 0; i < num_sequences; ++i) {
      if (lengths[i] >= 0) continue;
      throw std::runtime_error(
          fmt::format("{}.idx: length of sequence {} is {}: the index is damaged",
                      reader.prefix().string(), i, lengths[i]));
    }
    fmt::print("length in tokens: min {}, median {}, mean {:.1f}, max {}\n", kth_length(lengths, 0),
               kth_length(lengths, num_sequences / 2),
               static_cast<double>(reader.num_tokens()) / static_cast<double>(num_sequences),
               kth_length(lengths, num_sequences - 1));
  }

  static void print_sequence(const DatasetReader& reader, int64_t i, const Vocabulary* vocabulary) {
    // Enough to recognise a document; the rest is a matter for `inspect`.
    constexpr int64_t kShownTokens = 64;
    const int64_t num_tokens = std::min<int64_t>(reader.length(i), kShownTokens);
    std::vector<int32_t> ids(static_cast<size_t>(num_tokens));
    reader.copy_tokens(i, 0, num_tokens, ids.data());
    const std::string text = vocabulary != nullptr
                                 ? escape_for_terminal(decode_ids(ids, *vocabulary))
                                 : fmt::format("{}", fmt::join(ids, " "));
    fmt::print("document {} ({} tokens): {}{}\n", reader.document_of_sequence(i), reader.length(i),
               text, num_tokens < reader.length(i) ? " ..." : "");
  }

  PrefixOptions options_;
  int64_t num_documents_ = 3;
};

class VerifyCommand final : public Command {
 public:
  std::string name() const override { return "verify"; }
  std::string description() const override {
    return "check every structural property of a dataset";
  }
  void declare(OptionSet& options) override { options_.declare(options); }
  void validate(OptionSet& options) const override { options_.validate(options); }

  int run(const OptionSet&) override {
    const std::filesystem::path prefix = without_suffix(options_.prefix);
    const auto manifest = read_dataset_manifest(prefix);
    int64_t vocabulary_size = manifest ? manifest->vocabulary_size : 0;
    if (!options_.vocab_file.empty()) {
      vocabulary_size = Vocabulary::load(options_.vocab_file, options_.merge_file)->size();
    }
    std::vector<std::string> problems = verify_dataset(prefix, vocabulary_size);
    if (problems.empty() && manifest) compare(DatasetReader(prefix), *manifest, problems);
    // Not fmt::print, which throws when nobody reads: the exit code must still tell.
    for (const std::string& problem : problems) std::fprintf(stdout, "%s\n", problem.c_str());
    if (!problems.empty()) {
      fmt::print(stderr, "error: {}: {} problem{}\n", prefix.string(), problems.size(),
                 problems.size() == 1 ? "" : "s");
      return static_cast<int>(ExitCode::kBadInput);
    }
    const DatasetReader reader(prefix);
    fmt::print("{}: sound; {} documents, {} tokens{}\n", prefix.string(), reader.num_documents(),
               reader.num_tokens(),
               vocabulary_size > 0 ? fmt::format(", all ids below {}", vocabulary_size) : "");
    return 0;
  }

 private:
  static void compare(const DatasetReader& reader, const StoredManifest& manifest,
                      std::vector<std::string>& problems) {
    const std::string path = manifest_path(reader.prefix()).string();
    if (reader.num_documents() != manifest.num_documents) {
      problems.push_back(fmt::format("{}: says {} documents, the index holds {}", path,
                                     manifest.num_documents, reader.num_documents()));
    }
    if (reader.num_tokens() != manifest.num_tokens) {
      problems.push_back(fmt::format("{}: says {} tokens, the index holds {}", path,
                                     manifest.num_tokens, reader.num_tokens()));
    }
  }

  PrefixOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_info_command() { return std::make_unique<InfoCommand>(); }
std::unique_ptr<Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }

}  // namespace weft
