#include "indexed_dataset/blends/order_options.h"

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
}

SplitBlends OrderOptions::resolve(DataPaths paths) const {
  paths.blend_schedule = blend_schedule;
  return resolve_data_paths(paths);
}

void OrderOptions::validate(OptionSet& options, bool needs_batch) const {
  if (!seq_length) options.problem("--seq-length is required without --run");
  if (order.train_samples.has_value() == order.train_iters.has_value()) {
    options.problem(
        "give either --train-samples or --train-iters, as for training: the sample order depends "
        "on it");
  }
  if ((needs_batch || order.train_iters) && !order.global_batch_size) {
    options.problem(
        "--global-batch-size is needed with --iteration, --train-iters, and for valid and test");
  }
}

}  // namespace weft
