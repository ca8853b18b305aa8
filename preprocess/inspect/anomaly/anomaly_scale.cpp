#include "preprocess/inspect/anomaly/anomaly_scale.h"

#include <algorithm>
#include <cmath>

namespace weft {
namespace {

// Differences below these say nothing, however alike the pieces of a range are.
constexpr Measures kLeastDeviations = {0.01F, 0.01F, 0.02F, 0.25F};

constexpr size_t kNumBins = 1 << 18;
// Larger values are rare and share the last bin.
constexpr Measures kLargest = {1, 1, 2, 64};

}  // namespace

MeasureHistograms::MeasureHistograms() {
  for (Bins& bins : bins_) {
    bins.counts.resize(kNumBins);
    bins.values.resize(kNumBins);
  }
}

void MeasureHistograms::add(const Measures& piece) {
  ++num_pieces_;
  for (size_t m = 0; m < kNumMeasures; ++m) {
    const float share = std::clamp(piece[m] / kLargest[m], 0.0F, 1.0F);
    const size_t bin = std::min(static_cast<size_t>(share * kNumBins), kNumBins - 1);
    if (bins_[m].counts[bin]++ == 0) bins_[m].values[bin] = piece[m];
  }
}

float MeasureHistograms::median_of(const Bins& bins, int64_t num_pieces) {
  int64_t num_before = 0;
  for (size_t bin = 0; bin < kNumBins; ++bin) {
    num_before += bins.counts[bin];
    if (num_before > num_pieces / 2) return bins.values[bin];
  }
  return 0;  // of no pieces
}

float MeasureHistograms::median_distance_of(const Bins& bins, int64_t num_pieces, float center) {
  // Bins ascend: the next larger distance is that of the nearest filled one below or above.
  size_t above = 0;
  while (above < kNumBins && (bins.counts[above] == 0 || bins.values[above] < center)) ++above;
  size_t below = above;  // the bin behind it
  int64_t num_nearer = 0;
  while (true) {
    while (above < kNumBins && bins.counts[above] == 0) ++above;
    while (below > 0 && bins.counts[below - 1] == 0) --below;
    if (below == 0 && above == kNumBins) return 0;
    const bool is_above = below == 0 || (above < kNumBins && bins.values[above] - center <=
                                                                 center - bins.values[below - 1]);
    const size_t bin = is_above ? above++ : --below;
    num_nearer += bins.counts[bin];
    if (num_nearer > num_pieces / 2) return std::abs(bins.values[bin] - center);
  }
}

AnomalyScale::AnomalyScale(const MeasureHistograms& pieces) {
  for (size_t m = 0; m < kNumMeasures; ++m) {
    const MeasureHistograms::Bins& bins = pieces.bins_[m];
    medians_[m] = MeasureHistograms::median_of(bins, pieces.num_pieces());
    const float distance =
        MeasureHistograms::median_distance_of(bins, pieces.num_pieces(), medians_[m]);
    deviations_[m] = std::max(1.4826F * distance, kLeastDeviations[m]);
  }
}

AnomalyScale::Score AnomalyScale::score(const Measures& piece) const {
  Score largest;
  for (size_t m = 0; m < kNumMeasures; ++m) {
    const float distance = (piece[m] - medians_[m]) / deviations_[m];
    const float value =
        counts_below_median(static_cast<Measure>(m)) ? std::abs(distance) : distance;
    if (value > largest.value) largest = {.value = value, .measure = static_cast<Measure>(m)};
  }
  return largest;
}

}  // namespace weft
