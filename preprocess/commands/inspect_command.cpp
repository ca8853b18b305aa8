// weft-data inspect samples shows what a training run saw: documents, token ranges, ids and text.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "preprocess/commands/commands.h"
#include "preprocess/commands/messages.h"
#include "preprocess/datasets/dataset_text.h"
#include "preprocess/datasets/sample_query.h"
#include "preprocess/datasets/source_map.h"
#include "preprocess/terminal/prefix_options.h"
#include "preprocess/terminal/terminal_text.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

struct InspectOptions {
  SampleOrder order;
  VocabularyOptions vocabulary;
  std::string run_folder, split_name = "train", format = "text";
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
    options.choice("--split-name", split_name, {"train", "valid", "test"}, "which split");
    options.integers(
        "--sample-range", sample_range, 2,
        "samples A to B, without B: A is what the log calls consumed samples before the first one");
    options.integer("--iteration", iteration, "the samples of this iteration of the log (from 1)",
                    1);
    options.choice("--format", format, {"text", "jsonl"},
                   "for people, text escaped for terminals; or one JSON object per sample");
  }

  void validate(OptionSet& options) const {
    if (sample_range.empty() == !iteration)
      options.problem("give either --sample-range A B or --iteration I");
    if (sample_range.size() == 2 && sample_range[0] >= sample_range[1]) {
      options.problem(
          fmt::format("--sample-range: {} {} holds no sample", sample_range[0], sample_range[1]));
    }
    if (iteration && split_name != "train")
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
    const bool needs_batch = iteration || order.train_iters || split_name != "train";
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
                std::shared_ptr<const Vocabulary> vocabulary, bool as_json)
      : dataset_(dataset),
        sources_(open_source_map_of(dataset.reader())),
        split_name_(std::move(split_name)),
        vocabulary_(std::move(vocabulary)),
        as_json_(as_json) {}

  void print(int64_t sample_idx) const {
    std::vector<int32_t> ids(static_cast<size_t>(dataset_.sequence_length() + 1));
    dataset_.sample(sample_idx, ids.data());
    const std::vector<SamplePart> parts = dataset_.sample_parts(sample_idx);
    as_json_ ? print_json(sample_idx, ids, parts) : print_text(sample_idx, ids, parts);
  }

 private:
  using Ids = std::vector<int32_t>;

  void print_text(int64_t sample_idx, const Ids& ids, const std::vector<SamplePart>& parts) const {
    fmt::print("sample {} of {}: {} tokens from {} document{}\n", sample_idx, split_name_,
               ids.size(), parts.size(), parts.size() == 1 ? "" : "s");
    auto next = ids.begin();
    for (const SamplePart& part : parts) {
      const Ids part_ids(next, next + part.num_tokens);
      next += part.num_tokens;
      fmt::print("  document {} (sequence {}), tokens {} to {} of {}\n", part.document_idx,
                 part.sequence_idx, part.begin_token, part.begin_token + part.num_tokens,
                 dataset_.reader().length(part.sequence_idx));
      if (sources_) {
        const SourceEntry entry = sources_->entry(part.document_idx);
        fmt::print("    from {}, byte {}{}\n",
                   escape_for_terminal(sources_->inputs()[entry.input_idx]), entry.offset_bytes,
                   entry.origin.is_empty()
                       ? ""
                       : " (from " + escape_for_terminal(entry.origin.view()) + ")");
      }
      fmt::print("    ids: {}\n", fmt::join(part_ids, " "));
      if (vocabulary_)
        fmt::print("    text: {}\n", escape_for_terminal(decode_ids(part_ids, *vocabulary_)));
    }
  }

  void print_json(int64_t sample_idx, const Ids& ids, const std::vector<SamplePart>& parts) const {
    Json json = {
        {"sample", sample_idx}, {"split", split_name_}, {"parts", Json::array()}, {"ids", ids}};
    for (const SamplePart& part : parts) {
      json["parts"].push_back({{"document", part.document_idx},
                               {"sequence", part.sequence_idx},
                               {"begin_token", part.begin_token},
                               {"num_tokens", part.num_tokens}});
      if (!sources_) continue;
      const SourceEntry entry = sources_->entry(part.document_idx);
      json["parts"].back()["input"] = sources_->inputs()[entry.input_idx];
      json["parts"].back()["offset_bytes"] = entry.offset_bytes;
      if (!entry.origin.is_empty()) json["parts"].back()["origin"] = entry.origin.view();
    }
    if (vocabulary_) json["text"] = decode_ids(ids, *vocabulary_);
    // A sample may begin or end within a character: such bytes become U+FFFD. On a terminal
    // everything but ASCII is escaped, which is the same JSON: a terminal obeys controls beyond
    // ASCII, too.
    static const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
    fmt::print("{}\n", json.dump(-1, ' ', is_terminal, Json::error_handler_t::replace));
  }

  const GptDataset& dataset_;
  std::optional<SourceMap> sources_;
  std::string split_name_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  bool as_json_;
};

class InspectSamplesCommand final : public Command {
 public:
  std::string name() const override { return "inspect samples"; }
  std::string description() const override {
    return "print the samples of a training run: documents, ids, text";
  }
  void declare(OptionSet& options) override { options_.declare(options); }
  void validate(OptionSet& options) const override { options_.validate(options); }

  int run(const OptionSet&) override {
    const SampleOrder order = resolved_order();
    const auto [first, last] = wanted_samples(order);
    const Split split = options_.split_name == "train"   ? Split::kTrain
                        : options_.split_name == "valid" ? Split::kValid
                                                         : Split::kTest;
    const GptDataset dataset = build_split(order, split);
    // The index often holds more samples, from the last epoch that it needs. No iteration takes
    // them.
    if (const int64_t num_asked = num_asked_samples(order, split); last > num_asked) {
      throw std::invalid_argument(
          fmt::format("samples {} to {} are asked for, but the run takes only {} from {}", first,
                      last, num_asked, options_.split_name));
    }
    auto vocabulary = find_dataset_vocabulary(without_suffix(order.data_path), order.vocab_file,
                                              order.merge_file);
    if (!vocabulary) {
      print_message(
          "the dataset's vocabulary was not found: only ids are shown (--vocab-file, "
          "--merge-file)");
    }
    const SamplePrinter printer(dataset, options_.split_name, std::move(vocabulary),
                                options_.format == "jsonl");
    for (int64_t sample = first; sample < last; ++sample) printer.print(sample);
    return 0;
  }

 private:
  SampleOrder resolved_order() const {
    SampleOrder order =
        options_.run_folder.empty() ? options_.order : read_run_manifest(options_.run_folder);
    if (!options_.vocabulary.vocab_file.empty()) {
      order.vocab_file = options_.vocabulary.vocab_file;
      order.merge_file = options_.vocabulary.merge_file;
    }
    return order;
  }

  std::pair<int64_t, int64_t> wanted_samples(const SampleOrder& order) const {
    if (!options_.iteration) return {options_.sample_range[0], options_.sample_range[1]};
    if (!order.global_batch_size)
      throw std::runtime_error("the run's manifest holds no global_batch_size");
    return samples_of_iteration(order, *options_.iteration);
  }

  InspectOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_inspect_samples_command() {
  return std::make_unique<InspectSamplesCommand>();
}

}  // namespace weft
