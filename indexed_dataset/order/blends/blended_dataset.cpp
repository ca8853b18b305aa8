#include "indexed_dataset/order/blends/blended_dataset.h"

#include <stdexcept>
#include <utility>

namespace weft {

BlendedDataset::BlendedDataset(GptDataset dataset) { datasets_.push_back(std::move(dataset)); }

BlendedDataset::BlendedDataset(std::vector<GptDataset> datasets, HeldBlendingIndex index)
    : datasets_(std::move(datasets)), index_(std::move(index)) {
  if (datasets_.empty()) throw std::logic_error("a blend of no datasets");
}

BlendedDataset::BlendedDataset(BlendedDataset dataset, const CyclicOptions& cyclic)
    : BlendedDataset(std::move(dataset)) {
  cyclic_ = std::make_shared<const CyclicOrder>(num_samples(), cyclic);
}

BlendedDataset::BlendedDataset(BlendedDataset dataset, std::shared_ptr<const DrawnOrder> drawn)
    : BlendedDataset(std::move(dataset)) {
  drawn_ = std::move(drawn);
}

BlendedDataset::Place BlendedDataset::locate(int64_t i) const {
  if (i < 0 || i >= end()) {
    throw std::out_of_range(description() + ": no sample " + std::to_string(i) + " (there are " +
                            std::to_string(end()) + ")");
  }
  if (cyclic_) i = cyclic_->sample_at(i);
  if (drawn_) {
    const int64_t drawn = drawn_->sample_at(i);
    if (drawn < 0 || drawn >= num_samples()) {
      throw std::runtime_error(description() + ": draw " + std::to_string(i) +
                               " of the curriculum is sample " + std::to_string(drawn) +
                               ", and there are " + std::to_string(num_samples()) +
                               ": its file *-curriculum_draws.npy in --data-cache-path is damaged; "
                               "move it away");
    }
    i = drawn;
  }
  if (!index_) return {.dataset_idx = 0, .sample_idx = i};
  const Place place = {.dataset_idx = index_->view.dataset_of(i),
                       .sample_idx = index_->view.sample_index[static_cast<size_t>(i)]};
  if (place.dataset_idx < 0 || place.dataset_idx >= num_datasets() || place.sample_idx < 0 ||
      place.sample_idx >= dataset(place.dataset_idx).num_samples()) {
    throw std::runtime_error(
        description() + ": sample " + std::to_string(i) + " is sample " +
        std::to_string(place.sample_idx) + " of dataset " + std::to_string(place.dataset_idx) +
        ", which is not there: a file *-dataset_index.npy or *-dataset_sample_index.npy in the "
        "index cache is damaged; move it away");
  }
  return place;
}

void BlendedDataset::sample(int64_t i, int32_t* tokens) const {
  const Place place = locate(i);
  dataset(place.dataset_idx).sample(place.sample_idx, tokens);
}

void BlendedDataset::row(int64_t i, int64_t begin, int64_t length, int32_t* inputs,
                         int32_t* labels) const {
  const Place place = locate(i);
  dataset(place.dataset_idx).row(place.sample_idx, begin, length, inputs, labels);
}

void BlendedDataset::will_need(int64_t i, int64_t begin, int64_t count) const {
  const Place place = locate(i);
  dataset(place.dataset_idx).will_need(place.sample_idx, begin, count);
}

void BlendedDataset::prefetch_step(int64_t i, int step) const {
  const Place place = locate(i);
  dataset(place.dataset_idx).prefetch_step(place.sample_idx, step);
}

void BlendedDataset::prefetch(int64_t i, int64_t begin, int64_t count) const {
  const Place place = locate(i);
  dataset(place.dataset_idx).prefetch(place.sample_idx, begin, count);
}

std::vector<SamplePart> BlendedDataset::sample_parts(int64_t i) const {
  const Place place = locate(i);
  return dataset(place.dataset_idx).sample_parts(place.sample_idx);
}

std::vector<SamplePart> BlendedDataset::sample_parts(int64_t i, int64_t first, int64_t last) const {
  const Place place = locate(i);
  return dataset(place.dataset_idx).sample_parts(place.sample_idx, first, last);
}

std::string BlendedDataset::description() const {
  if (num_datasets() == 1) return datasets_[0].reader().prefix().string();
  return "the blend of " + std::to_string(num_datasets()) + " datasets";
}

}  // namespace weft
