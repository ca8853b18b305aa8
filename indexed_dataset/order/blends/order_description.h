// Describes the samples of a training set and their order, for files that hold something about
// every sample. It is a JSON object:
//
//   {"samples": ..., "split": "98,2,0" or null, "sample_order": "core", "seq_length": ..., "seed":
//   ...,
//    "mid_level_dataset_surplus": 0.005,
//    "datasets": [{"identity": {...}, "epochs": ..., "samples": ...,
//                  "samples_before_last_epoch": ... or null, "weight": ... or null, "share": [0, 1]
//                  or null}]}
//
// It has the arguments that move samples and are compared by themselves (sample_arguments.h), and
// what the others have come to. The order is a pure function of these values, so that equal ones
// mean equal samples, but where --blend-schedule changes the blend: a curriculum by difficulty has
// none.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "indexed_dataset/order/blends/blended_dataset.h"
#include "indexed_dataset/order/blends/sample_order.h"

namespace weft {

// `samples` is the training set of this order. Reads the datasets' indexes whole, for their
// checksums.
nlohmann::ordered_json describe_order(const BlendedDataset& samples, const SampleOrder& order);

// Throws std::runtime_error, which begins with `of_what` and names the first difference, if
// `described` is of other samples or of another order. Of a large dataset it reads as much as
// check_same_dataset() does.
void check_same_order(const nlohmann::ordered_json& described, const BlendedDataset& samples,
                      const SampleOrder& order, const std::string& of_what);

}  // namespace weft
