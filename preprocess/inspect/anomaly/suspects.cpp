#include "preprocess/inspect/anomaly/suspects.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace weft {
namespace {

// Differences below these say nothing, however alike the pieces of a range are.
constexpr Measures kLeastDeviations = {0.01F, 0.01F, 0.02F, 0.25F};

}  // namespace

AnomalyScale::AnomalyScale(const std::vector<MeasuredPiece>& pieces) {
  for (size_t m = 0; m < kNumMeasures; ++m) {
    std::vector<double> values;
    values.reserve(pieces.size());
    for (const MeasuredPiece& piece : pieces)
      values.push_back(static_cast<double>(piece.measures[m]));
    if (!values.empty()) usual_[m] = usual_of(std::move(values));
    usual_[m].deviation = std::max(usual_[m].deviation, static_cast<double>(kLeastDeviations[m]));
  }
}

AnomalyScale::Score AnomalyScale::score(const Measures& piece) const {
  Score largest;
  for (size_t m = 0; m < kNumMeasures; ++m) {
    const auto measure = static_cast<Measure>(m);
    const double z = usual_[m].z_of(static_cast<double>(piece[m]));
    const double value = counts_below_median(measure) ? std::abs(z) : z;
    if (value > largest.value) largest = {.value = value, .measure = measure};
  }
  return largest;
}

std::vector<Suspect> rank_documents(const std::vector<MeasuredPiece>& pieces, int64_t num_kept) {
  const AnomalyScale scale(pieces);
  std::vector<std::pair<double, size_t>> by_score;  // the largest first
  by_score.reserve(pieces.size());
  for (const MeasuredPiece& piece : pieces)
    by_score.emplace_back(-scale.score(piece.measures).value, by_score.size());
  std::sort(by_score.begin(), by_score.end());
  std::vector<Suspect> suspects;
  std::map<std::pair<int32_t, int64_t>, size_t> by_document;
  for (const auto& [score, at] : by_score) {
    if (std::ssize(suspects) == num_kept) break;
    const MeasuredPiece& piece = pieces[at];
    const bool is_new =
        by_document.try_emplace({piece.dataset_idx, piece.part.document_idx}, suspects.size())
            .second;
    if (is_new) suspects.push_back({.worst = piece, .score = scale.score(piece.measures)});
  }
  for (const MeasuredPiece& piece : pieces) {
    const auto found = by_document.find({piece.dataset_idx, piece.part.document_idx});
    if (found == by_document.end()) continue;
    ++suspects[found->second].num_pieces;
    suspects[found->second].num_tokens += piece.part.num_tokens;
  }
  return suspects;
}

}  // namespace weft
