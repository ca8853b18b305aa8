// The options that decide which samples a run sees, with Megatron's names and defaults, for commands
// that are told of a run by hand.
#pragma once

#include <string>

#include "indexed_dataset/base/terminal/option_set.h"
#include "indexed_dataset/order/blends/data_paths.h"
#include "indexed_dataset/order/samples/order_kind.h"

namespace weft {

struct DataOptions {
  DataPaths paths;
  OrderKind order = OrderKind::kCore;
  std::string surplus = "0.005", cache_path;
  std::string dataset_description;  // a file of Megatron-Core's; or empty

  void declare(OptionSet& options);
  void validate(OptionSet& options) const;
  // Throws std::invalid_argument if it is no number, 0 or more.
  double surplus_value() const;
  // Returns the tokenizer in the file of --dataset-description, for DatasetOptions; "" without the option. Throws
  // std::invalid_argument for a file that is no description, std::system_error if it cannot be read.
  std::string tokenizer_text() const;
};

}  // namespace weft
