// Describes the samples of a training set and their order, for files that hold something about every
// sample. It is a JSON object:
//
//   {"samples": ..., "sequence_length": ..., "sample_order": "core", "seed": ..., "split": "98,2,0" or null,
//    "datasets": [{"identity": {...}, "epochs": ..., "samples": ...,
//                  "samples_before_last_epoch": ... or null, "weight": ... or null, "share": [0, 1] or null}]}
//
// The order is a pure function of these values, so that equal ones mean equal samples.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "indexed_dataset/blends/build_datasets.h"

namespace weft {

// `samples` is the training set of `options`. Reads the datasets' indexes whole, for their checksums.
nlohmann::ordered_json describe_order(const BlendedDataset& samples, const DatasetOptions& options);

// Throws std::runtime_error, which begins with `of_what` and names the first difference, if `described` is
// of other samples or of another order. Of a large dataset it reads as much as check_same_dataset() does.
void check_same_order(const nlohmann::ordered_json& described, const BlendedDataset& samples,
                      const DatasetOptions& options, const std::string& of_what);

}  // namespace weft
