// weft-data index builds the sample indexes of a training run before it starts, as weft-train does by
// itself, and prints what there is.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "indexed_dataset/terminal/messages.h"
#include "indexed_dataset/terminal/terminal_text.h"
#include "preprocess/commands/commands.h"
#include "preprocess/commands/data_options.h"

namespace weft {

double DataOptions::surplus_value() const {
  double value = 0;
  const auto [end, error] = std::from_chars(surplus.data(), surplus.data() + surplus.size(), value);
  if (error != std::errc() || end != surplus.data() + surplus.size() || !(value >= 0) ||
      !std::isfinite(value)) {
    throw std::invalid_argument("--mid-level-dataset-surplus " + surplus +
                                ": it must be a number, 0 or more");
  }
  return value;
}

namespace {

class IndexCommand final : public Command {
 public:
  IndexCommand() : Command("index", "build the sample indexes of a training run") {}

  void declare(OptionSet& options) override {
    data_.declare(options);
    options.text("--split", split_, "weights of train, valid and test");
    options.integer("--seq-length", seq_length_, "tokens of a sample", 1, INT32_MAX - 1);
    options.integer("--seed", seed_, "of the sample order", 0, UINT32_MAX);
    options.integer("--train-samples", train_samples_, "samples to train; or --train-iters", 1);
    options.integer("--train-iters", train_iters_, "steps to train; needs --global-batch-size", 1);
    options.integer("--global-batch-size", global_batch_size_, "samples of a step", 1);
    options.integer("--eval-iters", eval_iters_,
                    "batches of each validation and test; 0: neither is built");
    options.integer("--eval-interval", eval_interval_, "steps between validations", 1);
    options.text("--vocab-file", vocab_file_,
                 "stands in the names of Megatron-Core's caches, and is not read");
    options.text("--merge-file", merge_file_, "the same");
    options.integer("--threads", num_threads_, "datasets that are indexed at a time", 1, 1024);
  }

  void validate(OptionSet& options) const override {
    data_.validate(options);
    if (data_.paths.empty()) options.problem("--data-path is required");
    if (!seq_length_) options.problem("--seq-length is required");
    if (train_samples_.has_value() == train_iters_.has_value())
      options.problem("give either --train-samples or --train-iters");
    if ((train_iters_ || eval_iters_ > 0) && !global_batch_size_)
      options.problem("--global-batch-size is needed with --train-iters and with --eval-iters");
    if (data_.cache_path.empty()) options.problem("--data-cache-path is required: files go there");
  }

  int run(const OptionSet&) override {
    const auto start = std::chrono::steady_clock::now();
    const DatasetOptions options{.blends = resolve_data_paths(data_.paths),
                                 .split = split_,
                                 .order = data_.order,
                                 .sequence_length = *seq_length_,
                                 .seed = seed_,
                                 .surplus = data_.surplus_value(),
                                 .cache_path = data_.cache_path,
                                 .vocab_file = vocab_file_,
                                 .merge_file = merge_file_,
                                 .num_threads = num_threads_.value_or(0)};
    const TrainingDatasets datasets = build_training_datasets(
        options, dataset_target_sizes(train_samples_, train_iters_.value_or(0),
                                      global_batch_size_.value_or(1), eval_interval_, eval_iters_));
    int64_t num_tokens = 0;
    for (const auto& reader : datasets.readers) num_tokens += reader->num_tokens();
    for (const IndexReport& report : datasets.reports) print(report);
    fmt::print("{}, {} tokens: {} indexes in {:.2f} s\n",
               counted(std::ssize(datasets.readers), "dataset"), num_tokens,
               datasets.reports.size(),
               std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return 0;
  }

 private:
  static void print(const IndexReport& report) {
    const std::string asked =
        report.num_asked < 0 ? "one epoch" : fmt::format("{} samples asked", report.num_asked);
    fmt::print(
        "{} {}: {}, {} samples{}; {} in {:.2f} s\n", split_name(report.split),
        escape_message(report.name), asked, report.num_samples,
        report.num_epochs > 0 ? fmt::format(" of {}", counted(report.num_epochs, "epoch")) : "",
        report.was_cached ? "was there, mapped" : "built", report.seconds);
  }

  DataOptions data_;
  std::string split_ = "969,30,1", vocab_file_, merge_file_;
  std::optional<int64_t> seq_length_, train_samples_, train_iters_, global_batch_size_;
  std::optional<int> num_threads_;
  int64_t seed_ = 1234, eval_iters_ = 0, eval_interval_ = 1000;
};

}  // namespace

std::unique_ptr<Command> make_index_command() { return std::make_unique<IndexCommand>(); }

}  // namespace weft
