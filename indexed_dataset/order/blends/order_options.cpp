#include "indexed_dataset/order/blends/order_options.h"

#include <string>

#include "indexed_dataset/order/batches/batch_size_problems.h"

namespace weft {
void OrderOptions::declare(OptionSet& options) {
  options.text("--blend-schedule", blend_schedule,
               "JSON file: from which sample or token on training has another blend");
  options.text("--split", order.data.split, "weights of train, valid and test, as for training");
  options.integer("--seq-length", seq_length, "tokens of a sample, as for training", 1,
                  INT32_MAX - 1);
  options.integer("--seed", order.data.seed, "as for training", 0, UINT32_MAX);
  options.integer("--train-samples", order.train_samples, "as for training; or --train-iters", 1);
  options.integer("--train-iters", order.train_iters, "as for training; needs --global-batch-size",
                  1);
  options.integer("--eval-iters", order.eval_iters,
                  "batches of each validation and test, as for training");
  options.integer("--eval-interval", order.eval_interval, "as for training", 1);
  options.integer("--global-batch-size", order.global_batch_size, "as for training", 1);
  options.integers("--rampup-batch-size", order.rampup_batch_size, 3,
                   "START INCREMENT SAMPLES, as for training");
  options.text("--step-batch-size-schedule", order.step_batch_size_schedule,
               "TOKENS:SIZE TOKENS:SIZE ..., as for training");
}

SplitBlends OrderOptions::resolve(DataPaths paths) const {
  paths.blend_schedule = blend_schedule;
  return resolve_data_paths(paths);
}

SampleOrder OrderOptions::resolved() const {
  SampleOrder resolved = order;
  resolved.data.sequence_length = *seq_length;
  if (!order.step_batch_size_schedule.empty())
    resolved.global_batch_size =
        BatchSizePlan::of_steps(order.step_batch_size_schedule, *seq_length).last();
  return resolved;
}

void OrderOptions::validate(OptionSet& options, bool needs_batch) const {
  if (!seq_length) options.problem("--seq-length is required without --run");
  if (order.train_samples.has_value() == order.train_iters.has_value()) {
    options.problem(
        "give either --train-samples or --train-iters, as for training: the sample order depends "
        "on it");
  }
  if (!order.rampup_batch_size.empty() && !order.global_batch_size)
    options.problem("--rampup-batch-size needs --global-batch-size");
  if (seq_length) options.check([&] { check_batch_sizes(options); });
  if ((needs_batch || order.train_iters) && !order.global_batch_size &&
      order.step_batch_size_schedule.empty()) {
    options.problem(
        "--global-batch-size is needed with --iteration, --train-iters, and for valid and test");
  }
}

// Refuses the sizes that weft-train refuses. Throws for a schedule that is none.
void OrderOptions::check_batch_sizes(OptionSet& options) const {
  for (const std::string& problem :
       batch_size_problems({.global_batch_size = order.global_batch_size,
       .rampup_batch_size = order.rampup_batch_size,
       .step_batch_size_schedule = order.step_batch_size_schedule,
       .sequence_length = *seq_length,
       .has_train_samples = order.train_samples.has_value(),
       .micro_batch_size = order.micro_batch_size,
       .data_parallel_size = order.data_parallel_size}))
    options.problem(problem);
}

}  // namespace weft
