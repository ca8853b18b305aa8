#include "trainer/evaluate/scorer.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "kernels/recording_backend.h"
#include "trainer/data/document_bounds.h"

namespace weft {

namespace {

constexpr int64_t kLogitsTokens = 2048;  // 400 MiB of fp32 logits of GPT-2's vocabulary

ModelShape scorer_shape(const InferenceWeights& weights, int64_t longest, int64_t batch_tokens) {
  const int64_t T = std::max<int64_t>(2, longest);
  return inference_shape(weights, std::clamp<int64_t>(batch_tokens / T, 1, 64), T);
}

ActivationOptions scorer_activations(const ModelShape& shape) {
  return {.logits_chunk = std::min(kLogitsTokens, shape.micro_batch_size * shape.seq_length)};
}

template <typename T>
std::vector<T> to_host(Backend& backend, const Tensor& tensor, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  backend.copy(values.data(), tensor.data(), count * static_cast<int64_t>(sizeof(T)),
               Stream::kCompute);
  backend.synchronize();
  return values;
}

}  // namespace

ScoredTokens::ScoredTokens(Backend& backend, const Tensor& losses, const Tensor& most_likely,
                           int64_t count)
    : losses_(to_host<float>(backend, losses, count)),
      most_likely_(to_host<int32_t>(backend, most_likely, count)) {}

Score ScoredTokens::score(const ScoreRequest& request, int64_t first) const {
  Score score;
  auto at = static_cast<size_t>(first);
  for (size_t t = request.num_context; t < request.tokens.size(); ++t, ++at) {
    score.log_likelihood -= static_cast<double>(losses_[at]);
    score.is_greedy = score.is_greedy && most_likely_[at] == request.tokens[t];
  }
  return score;
}

Scorer::Scorer(Backend& backend, const ModelShape& shape)
    : backend_(backend), model_(backend, shape, scorer_activations(shape)) {
  const auto add = [&](const char* name, Tensor* tensor) {
    model_.plan().add(MemoryClass::kBatch, name, tensor, DType::kInt32,
                      {shape.micro_batch_size, shape.seq_length});
  };
  add("tokens", &tokens_);
  add("targets", &targets_);
  add("most likely tokens", &most_likely_);
  if (shape.needs_document_bounds())
    model_.plan().add(MemoryClass::kBatch, "document bounds", &document_bounds_, DType::kInt32,
                      {shape.micro_batch_size, shape.seq_length, 2});
  model_.plan().add(MemoryClass::kBatch, "loss", &loss_, DType::kFloat32, {1});
}

// A scorer without a device tells which operations there will be; the longest have the largest
// scratch.
Scorer::Scorer(Backend& backend, const InferenceWeights& weights, int64_t longest,
               int64_t batch_tokens)
    : Scorer(backend, scorer_shape(weights, longest, batch_tokens)) {
  RecordingBackend recorder;
  Scorer planned(recorder, model_.shape());
  planned.model_.allocate(0);
  MicroBatch batch;
  batch.tokens = planned.tokens_;
  batch.targets = planned.targets_;
  batch.document_bounds = planned.document_bounds_;
  planned.model_->forward(batch, /*training=*/false);
  planned.model_->loss(planned.loss_, batch, {.most_likely = planned.most_likely_});
  model_.allocate(backend.workspace_bytes(recorder.operations()), weights.shared);
  end_of_document_ = static_cast<int32_t>(weights.end_of_document);
  if (weights.stored != nullptr) model_.load(*weights.stored);
}

std::vector<Score> Scorer::score(std::span<const ScoreRequest> requests,
                                 const std::function<void(size_t)>& on_progress) {
  // Neighbours have similar lengths, because the shorter ones of a batch are padded.
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return requests[a].num_inputs() > requests[b].num_inputs();
  });
  std::vector<Score> scores(requests.size());
  for (size_t first = 0; first < order.size(); first += batch_size()) {
    std::vector<const ScoreRequest*> batch;
    std::vector<Score*> results;
    for (size_t i = first; i < std::min(order.size(), first + batch_size()); ++i) {
      batch.push_back(&requests[order[i]]);
      results.push_back(&scores[order[i]]);
    }
    score_batch(batch, results);
    on_progress(first + batch.size());
  }
  return scores;
}

// Sequences begin in column 0, and no token sees the padding behind them.
void Scorer::score_batch(std::span<const ScoreRequest* const> batch,
                         std::span<Score* const> scores) {
  const int64_t B = model_.shape().micro_batch_size;
  const int64_t T = std::max<int64_t>(2, batch.front()->num_inputs());
  std::vector<int32_t> tokens(static_cast<size_t>(B * T)), targets(tokens.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    const std::vector<int32_t>& all = batch[i]->tokens;
    const auto row = static_cast<std::ptrdiff_t>(i) * T;
    std::copy(all.begin(), all.end() - 1, tokens.begin() + row);
    std::copy(all.begin() + 1, all.end(), targets.begin() + row);
  }
  backend_.copy(tokens_.data(), tokens.data(), B * T * 4, Stream::kCompute);
  backend_.copy(targets_.data(), targets.data(), B * T * 4, Stream::kCompute);
  model_->set_sequence_length(T);
  MicroBatch micro_batch;
  micro_batch.tokens = view(tokens_, {B, T});
  micro_batch.targets = view(targets_, {B, T});
  std::vector<int32_t> bounds;  // The copies from the host are over when the losses have come.
  if (document_bounds_) {
    bounds.resize(2 * tokens.size());
    for (int64_t row = 0; row < B; ++row)
      find_bounds_by_tokens(&tokens[static_cast<size_t>(row * T)], T, end_of_document_,
                            &bounds[static_cast<size_t>(2 * row * T)]);
    micro_batch.document_bounds = view(document_bounds_, {B, T, 2});
    backend_.copy(document_bounds_.data(), bounds.data(), 2 * B * T * 4, Stream::kCompute);
  }
  model_->forward(micro_batch, /*training=*/false);
  model_->loss(loss_, micro_batch, {.most_likely = view(most_likely_, {B * T})});
  const ScoredTokens scored(backend_, model_->token_losses(), most_likely_, B * T);
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto before = static_cast<int64_t>(batch[i]->num_context) - 1;
    *scores[i] = scored.score(*batch[i], static_cast<int64_t>(i) * T + before);
  }
}

}  // namespace weft
