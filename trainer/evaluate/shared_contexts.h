// Log-likelihoods of several endings of one context, which is computed once. Keys and values of the
// contexts of a batch are kept; then the first endings of all are computed together, the second
// ones in their place, and so on.
//
//   column        0 1 2 3 4 5 6 7
//   context 0     a b c d e | f g      Contexts end in one column (their last token begins each
//   context 1     . . a b c | d        ending); what is before a shorter one is a document of its
//                                      own, which no token of it sees.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "trainer/evaluate/scorer.h"
#include "trainer/generate/inference_model.h"

namespace weft {

// Returns whether neighbours among the requests share a context, for a model that does not keep
// documents apart.
bool have_shared_contexts(std::span<const ScoreRequest> requests, const ModelShape& shape);

class SharedContextScorer {
 public:
  // Plans and allocates memory for these requests, and reads weights that are stored. All but the
  // weights must outlive this.
  SharedContextScorer(Backend& backend, const InferenceWeights& weights,
                      std::span<const ScoreRequest> requests);

  // As Scorer::score().
  std::vector<Score> score(const std::function<void(size_t)>& on_progress);

 private:
  // The requests of a context are neighbours.
  struct Group {
    size_t first = 0, count = 0;
  };
  struct Sizes {
    int64_t batch_size = 0, context = 0, ending = 0;  // in groups, and in columns at most
    int64_t columns() const { return std::max(context, ending); }
  };
  static std::vector<Group> groups_of(std::span<const ScoreRequest> requests);
  static Sizes sizes_of(std::span<const ScoreRequest> requests, const std::vector<Group>& groups);

  SharedContextScorer(Backend& backend, const InferenceWeights& weights,
                      std::span<const ScoreRequest> requests, const std::vector<Group>& groups,
                      const Sizes& sizes);
  const ScoreRequest& context_of(const Group& group) const { return requests_[group.first]; }
  void score_batch(std::span<const Group> batch, std::vector<Score>& scores);
  void score_endings(std::span<const Group> batch, int64_t first_column, size_t number,
                     std::vector<Score>& scores);
  // Computes columns of a batch: `tokens` are (B,T).
  MicroBatch forward(int64_t first_column, int64_t T, const std::vector<int32_t>& tokens);
  void set_contexts(std::span<const Group> batch, int64_t num_columns);

  Backend& backend_;
  const std::span<const ScoreRequest> requests_;
  const std::vector<Group> groups_;  // the longest context first
  const Sizes sizes_;
  InferenceModel model_;
  std::vector<int64_t> pad_;                           // columns before each context
  Tensor tokens_, targets_, positions_, most_likely_;  // (B,T) int32
  Tensor document_bounds_;                             // (B,S,2) int32
  Tensor loss_;                                        // (1) fp32
};

}  // namespace weft
