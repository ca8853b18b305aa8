// The scale on which the measures of a range's pieces become z-scores (text_anomaly.h), in memory
// that does not grow with the range.
//
// The median and the median distance of each measure are read from a histogram of all pieces, so
// that one pass over the texts is enough and no piece is kept. A bin is 1/2^18 of the measure's
// scale (shares: 1, compressed size: 2, rarity: 64 bits), below a thousandth of the least deviation
// that counts, and stands for the first value that fell into it: a range whose pieces do not share
// bins has its exact medians.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "preprocess/inspect/anomaly/text_anomaly.h"

namespace weft {

// Counts the pieces of a range: 12 MiB.
class MeasureHistograms {
 public:
  MeasureHistograms();
  void add(const Measures& piece);
  int64_t num_pieces() const { return num_pieces_; }

 private:
  friend class AnomalyScale;
  struct Bins {
    std::vector<int64_t> counts;
    std::vector<float> values;  // of each bin, the first one
  };
  static float median_of(const Bins& bins, int64_t num_pieces);
  // The median of the distances from `center`, which is a value of the bins.
  static float median_distance_of(const Bins& bins, int64_t num_pieces, float center);

  std::array<Bins, kNumMeasures> bins_;
  int64_t num_pieces_ = 0;
};

// Gives the pieces of a range their z-scores.
class AnomalyScale {
 public:
  // `pieces` are all of the range.
  explicit AnomalyScale(const MeasureHistograms& pieces);

  struct Score {
    float value = 0;
    Measure measure = kRepeatedCharacters;  // the one that makes it
  };
  Score score(const Measures& piece) const;
  float median(Measure measure) const { return medians_[measure]; }
  float deviation(Measure measure) const { return deviations_[measure]; }

 private:
  Measures medians_{}, deviations_{};
};

}  // namespace weft
