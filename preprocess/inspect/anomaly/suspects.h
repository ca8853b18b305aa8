// Ranks the documents of a range by how unlike the rest of it their texts are.
//
// A measure of a piece (text_anomaly.h) becomes a robust z-score: its distance from the median of
// all pieces, in units of the robust deviation (losses/jump.h) or of a floor, where nearly all
// pieces are alike. Repetition counts only above the median, the others on both sides: text that
// hardly compresses is noise, and tokens that are all common are repetition. The score of a piece
// is its largest z-score, and that of a document the largest of its pieces.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "preprocess/inspect/anomaly/text_anomaly.h"
#include "preprocess/inspect/lookup/taken_samples.h"
#include "preprocess/inspect/losses/jump.h"

namespace weft {

// A piece of a document in a sample: 64 bytes.
struct MeasuredPiece {
  int32_t stretch_idx = 0;
  int32_t dataset_idx = 0;  // equal for readers of one dataset that a blend spells in several ways
  int64_t sample_idx = 0;
  SamplePart part;
  Measures measures{};
};

// The measures that are usual in a range.
class AnomalyScale {
 public:
  explicit AnomalyScale(const std::vector<MeasuredPiece>& pieces);

  struct Score {
    double value = 0;
    Measure measure = kRepeatedCharacters;  // the one that makes it
  };
  Score score(const Measures& piece) const;

 private:
  std::array<Usual, kNumMeasures> usual_;
};

// A document, by its most suspicious piece.
struct Suspect {
  MeasuredPiece worst;
  AnomalyScale::Score score;
  int64_t num_pieces = 0, num_tokens = 0;  // of the document in the range
};

// Returns the `num_kept` documents with the largest scores, the largest first. Of equal scores the
// one that comes first in `pieces`, those of a range in the order of the run, counts as larger.
std::vector<Suspect> rank_documents(const std::vector<MeasuredPiece>& pieces, int64_t num_kept);

}  // namespace weft
