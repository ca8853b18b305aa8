// The options that decide how many samples a run takes and how long they are, for commands that are
// told of a run by hand.
#pragma once

#include <optional>

#include "indexed_dataset/base/terminal/option_set.h"
#include "indexed_dataset/order/blends/sample_query.h"

namespace weft {

struct OrderOptions {
  SampleOrder order;  // all but its datasets
  std::optional<int64_t> seq_length;
  std::string blend_schedule;

  void declare(OptionSet& options);
  // The datasets that `paths` and --blend-schedule name.
  SplitBlends resolve(DataPaths paths) const;
  // The order with its sequence length and full batch.
  SampleOrder resolved() const;
  // Notes what is missing, and batch sizes that no run has. `needs_batch`: the command does not work without the batch size.
  void validate(OptionSet& options, bool needs_batch) const;

 private:
  void check_batch_sizes(OptionSet& options) const;
};

}  // namespace weft
