#include "preprocess/inspect/anomaly/suspects.h"

#include <algorithm>

namespace weft {

SuspectSearch::SuspectSearch(int64_t num_kept) : num_kept_(static_cast<size_t>(num_kept)) {}

void SuspectSearch::add(const MeasuredPiece& piece) {
  ++num_added_;
  for (size_t m = 0; m < kNumMeasures; ++m) {
    add(extremes_[m][0], piece.measures[m], piece);
    if (counts_below_median(static_cast<Measure>(m)))
      add(extremes_[m][1], -piece.measures[m], piece);
  }
}

void SuspectSearch::add(Extremes& extremes, float value, const MeasuredPiece& piece) const {
  auto& [documents, by_value] = extremes;
  const bool is_full = documents.size() == num_kept_;
  // A document that is kept has a larger value than this already, or the same one earlier.
  if (is_full && value <= std::get<0>(*by_value.begin())) return;
  const Document document(piece.dataset_idx, piece.part.document_idx);
  const int64_t order = -num_added_;  // of equal values the later one goes first
  if (const auto known = documents.find(document); known != documents.end()) {
    Extremes::Entry& entry = known->second;
    if (value <= entry.value) return;
    by_value.erase({entry.value, entry.order, document});
    entry = {.value = value, .order = order, .piece = piece};
  } else {
    if (is_full) {
      documents.erase(std::get<2>(*by_value.begin()));
      by_value.erase(by_value.begin());
    }
    documents[document] = {.value = value, .order = order, .piece = piece};
  }
  by_value.emplace(value, order, document);
}

std::vector<Suspect> SuspectSearch::ranked(const AnomalyScale& scale) const {
  const auto is_before = [](const Suspect& a, const Suspect& b) {
    return std::pair(-a.score.value, a.order) < std::pair(-b.score.value, b.order);
  };
  std::map<Document, Suspect> by_document;
  for (const auto& of_measure : extremes_) {
    for (const Extremes& of_side : of_measure) {
      for (const auto& [document, entry] : of_side.documents) {
        const Suspect suspect{.worst = entry.piece,
                              .score = scale.score(entry.piece.measures),
                              .order = -entry.order};
        const auto [known, is_new] = by_document.try_emplace(document, suspect);
        if (!is_new && is_before(suspect, known->second)) known->second = suspect;
      }
    }
  }
  std::vector<Suspect> suspects;
  for (const auto& [document, suspect] : by_document) suspects.push_back(suspect);
  std::sort(suspects.begin(), suspects.end(), is_before);
  suspects.resize(std::min(suspects.size(), num_kept_));
  return suspects;
}

}  // namespace weft
