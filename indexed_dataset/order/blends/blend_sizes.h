// How many samples a blend has, and how many are built of each of its datasets, so that a few more
// than the greedy rule draws are there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "indexed_dataset/order/samples/gpt_dataset.h"
#include "indexed_dataset/order/samples/order_kind.h"

namespace weft {

// Megatron-Core's --mid-level-dataset-surplus.
inline constexpr double kDefaultSurplus = 0.005;

// NumPy's sum of doubles, bit for bit: pairwise from 8 terms on (numpy/_core/src/umath/
// loops_utils.h.src, DOUBLE_pairwise_sum). The last bit of a weight can decide which dataset of a
// blend gives a sample.
double numpy_sum(std::span<const double> values);

// Each weight divided by the sum of all, as Megatron-Core's normalize().
std::vector<double> normalize_weights(std::span<const double> weights);

struct BlendSizes {
  std::vector<double> weights;        // as the blending index takes them: normalized
  std::vector<int64_t> num_to_build;  // of each dataset, at least
  int64_t size = 0;                   // of the blend
};

// Each weight divided by the sum of all, as the programs of this order divide them before they use
// them. Weights with equal shares make equal blends.
std::vector<double> shares_of_weights(std::span<const double> weights, OrderKind order);

// For `num_samples` > 0 and weights as they were given.
//
//   core, sequential  size = sum of ceil(num_samples * w); ceil(ceil(num_samples * w) * (1 + surplus))
//                     are built [Megatron-Core 0.13,
//                     core/datasets/blended_megatron_dataset_builder.py]
//   core-0.10         size = sum of what is built, which is ceil(num_samples * w * 1.005) each
//                     [the same file in Megatron-Core 0.10]
//   the older ones    ceil(num_samples * w * 1.005) are built [Megatron-LM v2, data/dataset_utils.py]
//
// The older programs give their blend the sum of these numbers, or of all samples that the datasets
// have. Read in order no more than num_samples of them are taken, so here `size` ends there: the
// blending index begins with the same entries.
BlendSizes blend_sizes(std::span<const double> weights, int64_t num_samples, OrderKind order,
                       double surplus = kDefaultSurplus);

// Throws UsageError that names a dataset which has fewer samples than the blending index
// takes of it (`counts`), both numbers, and what to change. The greedy rule takes the first sample
// of a dataset of small weight early, so that a short run can ask for more than the surplus.
void check_not_outrun(Split split, OrderKind order, double surplus,
                      const std::vector<int64_t>& counts, const std::vector<GptDataset>& datasets);

}  // namespace weft
