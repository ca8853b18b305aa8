// weft-data inspect samples shows what a training run saw: documents, token ranges, ids and text;
// weft-data inspect document shows one document: where it came from, its ids and text.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "indexed_dataset/beside/documents.h"
#include "indexed_dataset/beside/run_segments.h"
#include "indexed_dataset/beside/source_map.h"
#include "indexed_dataset/pair/dataset_files.h"
#include "indexed_dataset/samples/sample_query.h"
#include "indexed_dataset/terminal/messages.h"
#include "indexed_dataset/terminal/terminal_text.h"
#include "preprocess/commands/commands.h"
#include "preprocess/commands/prefix_options.h"
#include "preprocess/documents/dataset_text.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

void declare_format(OptionSet& options, bool& as_json) {
  options.choice("--format", as_json, {{"text", false}, {"jsonl", true}},
                 "for people, text escaped for terminals; or one line of JSON for each");
}

std::shared_ptr<const Vocabulary> find_vocabulary(const std::filesystem::path& prefix,
                                                  const std::filesystem::path& vocab_file,
                                                  const std::filesystem::path& merge_file) {
  auto vocabulary = find_dataset_vocabulary(prefix, vocab_file, merge_file);
  if (!vocabulary) {
    print_message(
        "the dataset's vocabulary was not found: only ids are shown (--vocab-file, --merge-file)");
  }
  return vocabulary;
}

void add_source(Json& json, const std::optional<SourceMap>& sources, int64_t document_idx) {
  if (!sources) return;
  const SourceEntry entry = sources->entry(document_idx);
  json["input"] = sources->inputs()[entry.input_idx];
  json["offset_bytes"] = entry.offset_bytes;
  if (!entry.origin.is_empty()) json["origin"] = entry.origin.view();
}

// Documents may begin or end within a character: such bytes become U+FFFD. On a terminal everything
// but ASCII is escaped, which is the same JSON: a terminal obeys controls beyond ASCII, too.
void print_line(const Json& json) {
  static const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  fmt::print("{}\n", json.dump(-1, ' ', is_terminal, Json::error_handler_t::replace));
}

const std::vector<std::pair<std::string, Split>> kSplits = {
    {"train", Split::kTrain}, {"valid", Split::kValid}, {"test", Split::kTest}};

struct InspectOptions {
  SampleOrder order;
  VocabularyOptions vocabulary;
  std::string run_folder;
  Split split = Split::kTrain;
  bool as_json = false;
  std::vector<int64_t> sample_range;
  std::optional<int64_t> iteration;

  void declare(OptionSet& options) {
    options.text("--run", run_folder,
                 "a training run's folder: its run_manifest.json gives all options down to "
                 "--global-batch-size");
    options.text("--data-path", order.data_path, "the dataset, as for training");
    options.text("--split", order.split, "weights of train, valid and test, as for training");
    options.integer("--seq-length", order.seq_length, "tokens of a sample, as for training", 1,
                    INT32_MAX - 1);
    options.integer("--seed", order.seed, "as for training", 0, UINT32_MAX);
    options.integer("--train-samples", order.train_samples, "as for training; or --train-iters", 1);
    options.integer("--train-iters", order.train_iters,
                    "as for training; needs --global-batch-size", 1);
    options.integer("--eval-iters", order.eval_iters, "as for training");
    options.integer("--eval-interval", order.eval_interval, "as for training", 1);
    options.integer("--global-batch-size", order.global_batch_size, "as for training", 1);
    vocabulary.declare(options, "the one in the run's or the dataset's manifest");
    options.choice("--split-name", split, kSplits, "which split");
    options.integers(
        "--sample-range", sample_range, 2,
        "samples A to B, without B: A is what the log calls consumed samples before the first one");
    options.integer("--iteration", iteration, "the samples of this iteration of the log (from 1)",
                    1);
    declare_format(options, as_json);
  }

  void validate(OptionSet& options) const {
    if (sample_range.empty() == !iteration)
      options.problem("give either --sample-range A B or --iteration I");
    if (sample_range.size() == 2 && sample_range[0] >= sample_range[1]) {
      options.problem(
          fmt::format("--sample-range: {} {} holds no sample", sample_range[0], sample_range[1]));
    }
    if (iteration && split != Split::kTrain)
      options.problem("--iteration counts training iterations: it needs --split-name train");
    vocabulary.validate(options);
    if (run_folder.empty()) {
      validate_order(options);
      return;
    }
    for (const char* name :
         {"--data-path", "--split", "--seq-length", "--seed", "--train-samples", "--train-iters",
          "--eval-iters", "--eval-interval", "--global-batch-size"}) {
      if (options.given(name))
        options.problem(
            fmt::format("--run already says how the run was trained: leave {} out", name));
    }
  }

 private:
  void validate_order(OptionSet& options) const {
    if (order.data_path.empty()) options.problem("--data-path is required without --run");
    if (!order.seq_length) options.problem("--seq-length is required without --run");
    if (order.train_samples.has_value() == order.train_iters.has_value()) {
      options.problem(
          "give either --train-samples or --train-iters, as for training: the sample order depends "
          "on it");
    }
    const bool needs_batch = iteration || order.train_iters || split != Split::kTrain;
    if (needs_batch && !order.global_batch_size) {
      options.problem(
          "--global-batch-size is needed with --iteration, --train-iters, and for valid and test");
    }
  }
};

// Prints samples, each with the documents it is made of.
class SamplePrinter {
 public:
  SamplePrinter(const GptDataset& dataset, std::string split_name,
                std::shared_ptr<const Vocabulary> vocabulary)
      : dataset_(dataset),
        sources_(open_source_map_of(dataset.reader())),
        split_name_(std::move(split_name)),
        vocabulary_(std::move(vocabulary)) {}

  void print_text(int64_t sample_idx) const {
    const Ids ids = ids_of(sample_idx);
    const std::vector<SamplePart> parts = dataset_.sample_parts(sample_idx);
    fmt::print("sample {} of {}: {} tokens from {}\n", sample_idx, split_name_, ids.size(),
               counted(std::ssize(parts), "document"));
    auto next = ids.begin();
    for (const SamplePart& part : parts) {
      const Ids part_ids(next, next + part.num_tokens);
      next += part.num_tokens;
      fmt::print("  document {} (sequence {}), tokens {} to {} of {}\n", part.document_idx,
                 part.sequence_idx, part.begin_token, part.begin_token + part.num_tokens,
                 dataset_.reader().length(part.sequence_idx));
      if (sources_)
        fmt::print("    from {}\n", escape_for_terminal(sources_->describe(part.document_idx)));
      fmt::print("    ids: {}\n", fmt::join(part_ids, " "));
      if (vocabulary_)
        fmt::print("    text: {}\n", escape_for_terminal(decode_ids(part_ids, *vocabulary_)));
    }
  }

  void print_json(int64_t sample_idx) const {
    const Ids ids = ids_of(sample_idx);
    Json json = {
        {"sample", sample_idx}, {"split", split_name_}, {"parts", Json::array()}, {"ids", ids}};
    for (const SamplePart& part : dataset_.sample_parts(sample_idx)) {
      json["parts"].push_back({{"document", part.document_idx},
                               {"sequence", part.sequence_idx},
                               {"begin_token", part.begin_token},
                               {"num_tokens", part.num_tokens}});
      add_source(json["parts"].back(), sources_, part.document_idx);
    }
    if (vocabulary_) json["text"] = decode_ids(ids, *vocabulary_);
    print_line(json);
  }

 private:
  using Ids = std::vector<int32_t>;

  Ids ids_of(int64_t sample_idx) const {
    Ids ids(static_cast<size_t>(dataset_.sequence_length() + 1));
    dataset_.sample(sample_idx, ids.data());
    return ids;
  }

  const GptDataset& dataset_;
  std::optional<SourceMap> sources_;
  std::string split_name_;
  std::shared_ptr<const Vocabulary> vocabulary_;
};

class InspectSamplesCommand final : public Command {
 public:
  InspectSamplesCommand()
      : Command("inspect samples", "print the samples of a training run: documents, ids, text") {}
  void declare(OptionSet& options) override { options_.declare(options); }
  void validate(OptionSet& options) const override { options_.validate(options); }

  int run(const OptionSet&) override {
    // Arguments that are given by hand are a run that was never resumed.
    const std::vector<RunSegment> segments =
        options_.run_folder.empty() ? std::vector{RunSegment{options_.order, {}, {}, {}}}
                                    : read_run_segments(options_.run_folder);
    std::vector<SegmentSamples> parts;
    if (options_.iteration) {
      parts = {samples_of_iteration(segments, *options_.iteration)};
    } else {
      parts = samples_in_range(segments, options_.split, options_.sample_range[0],
                               options_.sample_range[1]);
    }
    for (const SegmentSamples& part : parts) {
      if (part.segment->dataset)
        check_same_dataset(without_suffix(part.segment->order.data_path), *part.segment->dataset);
      print(*part.segment, part.first, part.last);
    }
    return 0;
  }

 private:
  void print(const RunSegment& segment, int64_t first, int64_t last) const {
    const SampleOrder& order = segment.order;
    std::string split_name;
    for (const auto& [name, split] : kSplits) {
      if (split == options_.split) split_name = name;
    }
    const GptDataset dataset = build_split(order, options_.split);
    // The index often holds more samples, from the last epoch that it needs. No iteration takes
    // them.
    if (const int64_t end = end_of_samples(segment, options_.split); last > end) {
      throw std::invalid_argument(
          fmt::format("samples {} to {} are asked for, but the run takes only {} from {}", first,
                      last, end, split_name));
    }
    const VocabularyOptions& given = options_.vocabulary;
    const bool is_given = !given.vocab_file.empty();
    const SamplePrinter printer(dataset, split_name,
                                find_vocabulary(without_suffix(order.data_path),
                                                is_given ? given.vocab_file : order.vocab_file,
                                                is_given ? given.merge_file : order.merge_file));
    for (int64_t sample = first; sample < last; ++sample)
      options_.as_json ? printer.print_json(sample) : printer.print_text(sample);
  }

  InspectOptions options_;
};

class InspectDocumentCommand final : public Command {
 public:
  InspectDocumentCommand()
      : Command("inspect document",
                "print one document of a dataset: file and byte of its line, ids, text") {}
  void declare(OptionSet& options) override {
    options_.declare(options);
    options.text("N", number_, "the document, counted from 0, empty ones included");
    declare_format(options, as_json_);
    options.integer("--max-tokens", max_tokens_, "of longer documents only these many are shown",
                    1);
  }
  void validate(OptionSet& options) const override {
    options_.validate(options);
    if (parse_int64(number_).value_or(-1) < 0)
      options.problem("give the number of the document, from 0, behind the dataset");
  }

  int run(const OptionSet&) override {
    const DatasetReader reader(without_suffix(options_.prefix));
    const Documents documents(reader);
    const int64_t document_idx = *parse_int64(number_);
    if (document_idx >= documents.count()) {
      throw std::invalid_argument(fmt::format("{}: there is no document {}, there are {} (from 0)",
                                              reader.prefix().string(), document_idx,
                                              documents.count()));
    }
    const auto sources = open_source_map_of(reader);
    const auto vocabulary = find_vocabulary(reader.prefix(), options_.vocabulary.vocab_file,
                                            options_.vocabulary.merge_file);
    const auto [first, last] = documents.sequences(document_idx);
    const int64_t num_tokens = documents.num_tokens(document_idx), num_sequences = last - first;
    const std::vector<int32_t> ids = documents.first_tokens(document_idx, max_tokens_);
    const std::string text = vocabulary ? decode_ids(ids, *vocabulary) : "";
    if (as_json_) {
      Json json = {
          {"document", document_idx}, {"num_tokens", num_tokens}, {"num_sequences", num_sequences}};
      add_source(json, sources, document_idx);
      json["ids"] = ids;
      if (vocabulary) json["text"] = text;
      print_line(json);
      return 0;
    }
    fmt::print("document {}: {} tokens in {}\n", document_idx, num_tokens,
               counted(num_sequences, "sequence"));
    print_source(sources, document_idx);
    const char* more = std::ssize(ids) < num_tokens ? " ..." : "";
    fmt::print("  ids: {}{}\n", fmt::join(ids, " "), more);
    if (vocabulary) fmt::print("  text: {}{}\n", escape_for_terminal(text), more);
    return 0;
  }

 private:
  static void print_source(const std::optional<SourceMap>& sources, int64_t document_idx) {
    if (!sources) {
      fmt::print("  file: not known, there is no source map beside the dataset\n");
      return;
    }
    const SourceEntry entry = sources->entry(document_idx);
    fmt::print("  file: {}\n  byte: {} (of the line, decompressed)\n",
               escape_for_terminal(sources->inputs()[entry.input_idx]), entry.offset_bytes);
    if (!entry.origin.is_empty())
      fmt::print("  from: {}\n", escape_for_terminal(entry.origin.view()));
  }

  PrefixOptions options_;
  std::string number_;
  bool as_json_ = false;
  int64_t max_tokens_ = 1'000'000;
};

}  // namespace

std::unique_ptr<Command> make_inspect_samples_command() {
  return std::make_unique<InspectSamplesCommand>();
}

std::unique_ptr<Command> make_inspect_document_command() {
  return std::make_unique<InspectDocumentCommand>();
}

}  // namespace weft
