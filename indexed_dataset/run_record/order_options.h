// The options that decide which samples a run takes, with Megatron's names and defaults, for
// commands that are told of a run by hand. They are declared from the list of sample_arguments.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "indexed_dataset/base/terminal/option_set.h"
#include "indexed_dataset/order/blends/sample_order.h"

namespace weft {

class OrderOptions {
 public:
  // With `ranks`, --micro-batch-size and --data-parallel-size are among them: they tell which rank
  // took a sample.
  void declare(OptionSet& options, bool ranks = false);
  // Notes what is missing, and batch sizes that no run has. `needs_batch`: the command does not
  // work without the batch size.
  void validate(OptionSet& options, bool needs_batch) const;
  // Notes values that are wrong by themselves, also where something else tells the rest.
  void validate_values(OptionSet& options) const;
  // The order that they say. Throws UsageError in words of the options, and
  // std::system_error for files that cannot be read.
  SampleOrder resolved() const;

  // Returns the tokenizer in the file of --dataset-description; "" without the option. Throws
  // likewise.
  std::string tokenizer_text() const;

  // With the defaults that a command changes, before they are declared.
  SampleOrder& order() { return order_; }
  const SampleOrder& order() const { return order_; }

 private:
  void check_batch_sizes(OptionSet& options) const;
  double surplus() const;

  SampleOrder order_;  // all but its datasets, and these
  std::optional<int64_t> seq_length_, micro_batch_size_;
  std::string surplus_ = "0.005";
  std::string dataset_description_;  // a file of Megatron-Core's; or empty
};

}  // namespace weft
