// The blending index tells which dataset of a blend gives sample k, and which of that dataset's
// samples it is, by Megatron's greedy rule (megatron/core/datasets/helpers.cpp,
// build_blending_indices and build_exhaustive_blending_indices).
//
//   Sample k comes from the dataset that is furthest behind its share: the one with the largest
//   weight * max(k, 1) - samples taken so far. Of equal ones the first in the list is taken.
//
// The sums are IEEE doubles, rounded after each operation, and the results are equal to the bit.
// Megatron looks at every dataset for every sample; build_blending_index() does so only for the few
// datasets that can be taken within a block of samples.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

namespace weft {

// As many datasets fit the 16 bits of Megatron's files; here more are possible.
inline constexpr size_t kMaxMegatronDatasets = 32766;

// The two arrays, wherever they lie; both have one entry per sample of the blend.
struct BlendingIndexView {
  std::variant<std::span<const int16_t>, std::span<const int32_t>> dataset_index;
  std::span<const int64_t> sample_index;

  int64_t size() const { return std::ssize(sample_index); }
  // The first samples alone: the index of a smaller size is the beginning of that of a larger one.
  BlendingIndexView first(int64_t size) const;
  // Returns how many samples each of so many datasets gives. Throws std::runtime_error for a
  // damaged file, which names a dataset that is not there.
  std::vector<int64_t> counts(size_t num_datasets) const;
  int64_t dataset_of(int64_t idx) const {
    return std::visit([idx](const auto& of) { return int64_t{of[static_cast<size_t>(idx)]}; },
                      dataset_index);
  }
};

// A blending index and the memory or the mapped files that it lies in.
struct HeldBlendingIndex {
  BlendingIndexView view;
  std::shared_ptr<const void> memory;
};

struct BlendingIndex {
  std::variant<std::vector<int16_t>, std::vector<int32_t>> dataset_index;
  std::vector<int64_t> sample_index;
  std::vector<int64_t> counts;  // how many samples each dataset gives

  BlendingIndexView view() const;  // valid while this lives and is not moved
};

// `weights` are positive and add up to 1; see normalize_weights().
BlendingIndex build_blending_index(std::span<const double> weights, int64_t size);

// Every sample of every dataset once: dataset d has sizes[d] > 0 samples, and the weights are the
// shares of the sizes.
BlendingIndex build_exhaustive_blending_index(std::span<const int64_t> sizes);

}  // namespace weft
