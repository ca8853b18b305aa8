// weft-data index builds the sample indexes of a training run before it starts, as weft-train does
// by itself, and prints what there is.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "indexed_dataset/base/terminal/progress_line.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/order/blends/build_datasets.h"
#include "indexed_dataset/run_record/order_options.h"
#include "indexed_dataset/run_record/sample_query.h"
#include "preprocess/commands/commands.h"

namespace weft {

namespace {

class IndexCommand final : public Command {
 public:
  IndexCommand()
      : Command("index", "build the sample indexes of a training run",
                "weft-data index --data-path my_text_document --seq-length 1024 "
                "--train-samples 100_000 --data-cache-path cache") {}

  void declare(OptionSet& options) override {
    order_.order().eval_iters = 0;  // unless they are asked for, only training is indexed
    order_.declare(options);
    options.text("--vocab-file", vocab_file_,
                 "stands in the names of Megatron-Core's caches, and is not read");
    options.text("--merge-file", merge_file_, "the same");
    options.integer("--threads", num_threads_, "datasets that are indexed at a time", 1, 1024);
  }

  void validate(OptionSet& options) const override {
    order_.validate_values(options);
    if (order_.order().paths.empty()) options.problem("--data-path is required");
    order_.validate(options, order_.order().eval_iters > 0);
    if (order_.order().cache_path.empty())
      options.problem("--data-cache-path is required: files go there");
  }

  int run(const OptionSet&) override {
    const auto start = std::chrono::steady_clock::now();
    SampleOrder order = order_.resolved();
    order.tokenizer = gpt2_files(vocab_file_, merge_file_);
    order.num_threads = num_threads_.value_or(0);
    const TrainingDatasets datasets = build(order);
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
  static TrainingDatasets build(const SampleOrder& order) {
    ProgressLine line("datasets");
    return build_training_datasets(order, target_sizes_of(order, order.eval_iters), line.report());
  }

  static void print(const IndexReport& report) {
    const std::string asked =
        report.num_asked < 0 ? "one epoch" : fmt::format("{} samples asked", report.num_asked);
    fmt::print(
        "{} {}: {}, {} samples{}; {} in {:.2f} s\n", split_name(report.split),
        escape_message(report.name), asked, report.num_samples,
        report.num_epochs > 0 ? fmt::format(" of {}", counted(report.num_epochs, "epoch")) : "",
        report.was_cached ? "was there, mapped" : "built", report.seconds);
  }

  OrderOptions order_;
  std::string vocab_file_, merge_file_;
  std::optional<int> num_threads_;
};

}  // namespace

std::unique_ptr<Command> make_index_command() { return std::make_unique<IndexCommand>(); }

}  // namespace weft
