// The log-likelihoods of tokens after others, batch by batch. A model whose run kept documents
// apart by their end-of-document tokens (--reset-attention-mask, --reset-position-ids) does so
// here.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "trainer/generate/inference_model.h"

namespace weft {

// The tokens from num_context on, at least one and behind at least one, are scored.
struct ScoreRequest {
  std::vector<int32_t> tokens;
  size_t num_context = 1;

  int64_t num_inputs() const { return static_cast<int64_t>(tokens.size()) - 1; }
};

struct Score {
  double log_likelihood = 0;  // of all scored tokens, natural logarithm
  bool is_greedy = true;      // Each of them is the most likely one after those before it.
};

// What a batch leaves on the device, of its first `count` tokens.
class ScoredTokens {
 public:
  ScoredTokens(Backend& backend, const Tensor& losses, const Tensor& most_likely, int64_t count);
  // Returns the score of a request whose first scored token is predicted by token `first`.
  Score score(const ScoreRequest& request, int64_t first) const;

 private:
  std::vector<float> losses_;
  std::vector<int32_t> most_likely_;
};

class Scorer {
 public:
  static constexpr int64_t kBatchTokens = 8192;  // enough for the products' full rate

  // Plans and allocates memory for requests of up to `longest` inputs, about `batch_tokens` of them
  // at a time, and reads weights that are stored. The backend, and weights that are shared, must
  // outlive this.
  Scorer(Backend& backend, const InferenceWeights& weights, int64_t longest,
         int64_t batch_tokens = kBatchTokens);

  int64_t device_bytes() { return model_.plan().device_bytes(); }
  size_t batch_size() const { return static_cast<size_t>(model_.shape().micro_batch_size); }

  // Returns a score for each request. Calls `on_progress` with the number of those that are done.
  std::vector<Score> score(
      std::span<const ScoreRequest> requests,
      const std::function<void(size_t)>& on_progress = [](size_t) {});

 private:
  Scorer(Backend& backend, const ModelShape& shape);
  void score_batch(std::span<const ScoreRequest* const> batch, std::span<Score* const> scores);

  Backend& backend_;
  InferenceModel model_;
  int32_t end_of_document_ = -1;
  Tensor tokens_, targets_, most_likely_;  // (B,T) int32
  Tensor document_bounds_;                 // (B,T,2) int32; empty where the shape needs none
  Tensor loss_;                            // (1) fp32
};

}  // namespace weft
