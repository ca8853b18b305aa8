// Describes the samples of a training set and their order, for files that hold something about every
// sample. It is a JSON object:
//
//   {"samples": ..., "sequence_length": ..., "sample_order": "core", "seed": ..., "split": "98,2,0" or null,
//    "datasets": [{"identity": {...}, "epochs": ..., "samples": ...,
//                  "samples_before_last_epoch": ... or null, "weight": ... or null, "share": [0, 1] or null}]}
//
// The order is a pure function of these values, so that equal ones mean equal samples, but where
// --blend-schedule changes the blend: a curriculum by difficulty has none.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "indexed_dataset/order/blends/blend.h"
#include "indexed_dataset/order/blends/blended_dataset.h"
#include "indexed_dataset/order/samples/order_kind.h"
#include "indexed_dataset/order/samples/split.h"

namespace weft {

// The arguments of a run that decide its training set.
struct OrderArguments {
  Blend blend;
  std::optional<std::string> split;  // nothing where each split has paths of its own
  OrderKind order = OrderKind::kCore;
  int64_t sequence_length = 0, seed = 0;
};
// Takes them from DatasetOptions, whose unit stands above this one.
template <typename DatasetOptions>
OrderArguments order_arguments(const DatasetOptions& options) {
  OrderArguments arguments{.blend = options.blends.of(Split::kTrain).front(),
                           .split = options.split,
                           .order = options.order,
                           .sequence_length = options.sequence_length,
                           .seed = options.seed};
  if (options.blends.has_own_paths) arguments.split.reset();
  return arguments;
}

// `samples` is the training set of these arguments. Reads the datasets' indexes whole, for their checksums.
nlohmann::ordered_json describe_order(const BlendedDataset& samples,
                                      const OrderArguments& arguments);

// Throws std::runtime_error, which begins with `of_what` and names the first difference, if `described` is
// of other samples or of another order. Of a large dataset it reads as much as check_same_dataset() does.
void check_same_order(const nlohmann::ordered_json& described, const BlendedDataset& samples,
                      const OrderArguments& arguments, const std::string& of_what);

}  // namespace weft
