// The samples of one split: those of a single dataset, or of several that are blended.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "indexed_dataset/order/samples/blending_index.h"
#include "indexed_dataset/order/samples/cyclic_order.h"
#include "indexed_dataset/order/samples/drawn_order.h"
#include "indexed_dataset/order/samples/gpt_dataset.h"

namespace weft {

// Thread-safe: nothing changes after construction.
class BlendedDataset {
 public:
  // A single dataset: its samples in its order.
  explicit BlendedDataset(GptDataset dataset);
  // Throws std::logic_error if `datasets` is empty.
  BlendedDataset(std::vector<GptDataset> datasets, HeldBlendingIndex index);
  // The samples of `dataset` in another order: sample i is what stands at position i of the cyclic
  // one, and i has no end; or it is the i-th draw, and there are as many as draws.
  BlendedDataset(BlendedDataset dataset, const CyclicOptions& cyclic);
  BlendedDataset(BlendedDataset dataset, std::shared_ptr<const DrawnOrder> drawn);

  int64_t num_samples() const { return index_ ? index_->view.size() : datasets_[0].num_samples(); }
  int64_t sequence_length() const { return datasets_[0].sequence_length(); }

  const CyclicOrder* cyclic_order() const { return cyclic_.get(); }  // null: in order
  const DrawnOrder* drawn_order() const { return drawn_.get(); }     // null: in order
  // The first i that is not there.
  int64_t end() const { return cyclic_ ? INT64_MAX : drawn_ ? drawn_->size() : num_samples(); }

  struct Place {
    int64_t dataset_idx = 0;
    int64_t sample_idx = 0;  // in that dataset
  };
  // Throws std::out_of_range for a sample that is not there.
  Place locate(int64_t i) const;
  // As the members of GptDataset. A message of an exception names the dataset.
  void sample(int64_t i, int32_t* tokens) const;
  void row(int64_t i, int64_t begin, int64_t length, int32_t* inputs, int32_t* labels) const;
  void will_need(int64_t i, int64_t begin, int64_t count) const;
  void prefetch_step(int64_t i, int step) const;
  void prefetch(int64_t i, int64_t begin, int64_t count) const;
  std::vector<SamplePart> sample_parts(int64_t i) const;
  std::vector<SamplePart> sample_parts(int64_t i, int64_t first, int64_t last) const;

  int64_t num_datasets() const { return std::ssize(datasets_); }
  const GptDataset& dataset(int64_t idx) const { return datasets_[static_cast<size_t>(idx)]; }
  bool is_blend() const { return index_.has_value(); }
  // Null for a single dataset without a blend.
  const BlendingIndexView* blending_index() const { return index_ ? &index_->view : nullptr; }
  // "PREFIX", or "the blend of N datasets": for messages.
  std::string description() const;

 private:
  std::vector<GptDataset> datasets_;
  std::optional<HeldBlendingIndex> index_;
  std::shared_ptr<const CyclicOrder> cyclic_;
  std::shared_ptr<const DrawnOrder> drawn_;
};

}  // namespace weft
