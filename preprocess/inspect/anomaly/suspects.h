// The most suspicious documents of a range, kept while its pieces pass by: memory for a few pieces
// of each document that may be shown, whatever the length of the range.
//
// The scores are known only when all pieces have been seen. But the score of a document is made by
// one measure of one piece, on one side of the median. If it is among the K largest scores, this
// value is among the K most extreme ones of that measure on that side. So the K most extreme
// documents of each are kept.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "preprocess/inspect/anomaly/anomaly_scale.h"
#include "preprocess/inspect/lookup/sample_place.h"
#include "preprocess/inspect/lookup/taken_samples.h"

namespace weft {

// A piece of a document in a sample.
struct MeasuredPiece {
  const DatasetReader* reader = nullptr;
  int64_t dataset_idx = 0;  // equal for readers of one dataset that a blend spells in several ways
  int64_t sample_idx = 0;
  SamplePlace place;
  SamplePart part;
  Measures measures{};
};

// A document, by its most suspicious piece.
struct Suspect {
  MeasuredPiece worst;
  AnomalyScale::Score score;
  int64_t order = 0;                       // of the piece in the run
  int64_t num_pieces = 0, num_tokens = 0;  // of the document in the range; not counted here
};

class SuspectSearch {
 public:
  explicit SuspectSearch(int64_t num_kept);
  // Takes the pieces in the order of the run. Readers must outlive the search.
  void add(const MeasuredPiece& piece);
  // Returns the `num_kept` documents with the largest scores, the largest first. Of equal scores
  // the one that the run took first counts as larger.
  std::vector<Suspect> ranked(const AnomalyScale& scale) const;

 private:
  using Document = std::pair<int64_t, int64_t>;  // dataset, number

  // The documents with the largest values of one measure, or with the smallest ones.
  struct Extremes {
    struct Entry {
      float value = 0;  // larger is more extreme
      int64_t order = 0;
      MeasuredPiece piece;
    };
    std::map<Document, Entry> documents;
    std::set<std::tuple<float, int64_t, Document>> by_value;  // ascending: the first one goes next
  };
  void add(Extremes& extremes, float value, const MeasuredPiece& piece) const;

  size_t num_kept_;
  int64_t num_added_ = 0;
  std::array<std::array<Extremes, 2>, kNumMeasures> extremes_;  // large and small values
};

}  // namespace weft
