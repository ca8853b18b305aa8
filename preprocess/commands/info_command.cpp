// weft-data info prints what a dataset holds.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "indexed_dataset/beside/kth_smallest.h"
#include "indexed_dataset/pair/dataset_files.h"
#include "indexed_dataset/pair/reader.h"
#include "indexed_dataset/terminal/terminal_text.h"
#include "preprocess/commands/commands.h"
#include "preprocess/commands/prefix_options.h"
#include "preprocess/documents/dataset_text.h"

namespace weft {
namespace {

class InfoCommand final : public Command {
 public:
  InfoCommand() : Command("info", "print what a dataset holds") {}

  void declare(OptionSet& options) override {
    options_.declare(options);
    options.integer("--documents", num_documents_, "how many of the first documents are printed",
                    0);
  }
  void validate(OptionSet& options) const override { options_.validate(options); }

  int run(const OptionSet&) override {
    const DatasetReader reader(without_suffix(options_.prefix));
    print_counts(reader);
    const auto vocabulary = find_dataset_vocabulary(reader.prefix(), options_.vocabulary.vocab_file,
                                                    options_.vocabulary.merge_file);
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
    fmt::print("{}.idx: version 1, tokens are {}\n", escape_message(reader.prefix().string()),
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
    const auto kth_length = [&](int64_t k) {
      return kth_smallest(num_sequences, k, [&](int64_t i) { return lengths[i]; });
    };
    fmt::print("length in tokens: min {}, median {}, mean {:.1f}, max {}\n", kth_length(0),
               kth_length(num_sequences / 2),
               static_cast<double>(reader.num_tokens()) / static_cast<double>(num_sequences),
               kth_length(num_sequences - 1));
  }

  static void print_sequence(const DatasetReader& reader, int64_t i, const Vocabulary* vocabulary) {
    // So many are enough to recognise a document; `inspect` shows the rest.
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

}  // namespace

std::unique_ptr<Command> make_info_command() { return std::make_unique<InfoCommand>(); }

}  // namespace weft
