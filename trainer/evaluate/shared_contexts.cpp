#include "trainer/evaluate/shared_contexts.h"

#include <algorithm>

#include "kernels/recording_backend.h"

namespace weft {

namespace {

constexpr int64_t kMostContexts = 64;
constexpr int64_t kLogitsOfContexts = 512;  // few, because contexts need none and compute as many

// The last token of a context begins each ending.
int64_t context_columns(const ScoreRequest& request) {
  return static_cast<int64_t>(request.num_context) - 1;
}
int64_t ending_columns(const ScoreRequest& request) {
  return request.num_inputs() - context_columns(request);
}

ModelShape shape_for(const InferenceWeights& weights, int64_t num_contexts, int64_t num_columns) {
  ModelShape shape = inference_shape(weights, num_contexts, num_columns);
  shape.restarts_positions = shape.masks_other_documents = true;
  return shape;
}

bool share_context(const ScoreRequest& a, const ScoreRequest& b) {
  return a.num_context == b.num_context &&
         std::equal(a.tokens.begin(), a.tokens.begin() + static_cast<std::ptrdiff_t>(a.num_context),
                    b.tokens.begin());
}

}  // namespace

bool have_shared_contexts(std::span<const ScoreRequest> requests, const ModelShape& shape) {
  return !shape.needs_document_bounds() &&
         std::adjacent_find(requests.begin(), requests.end(), share_context) != requests.end();
}

std::vector<SharedContextScorer::Group> SharedContextScorer::groups_of(
    std::span<const ScoreRequest> requests) {
  std::vector<Group> groups;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (i > 0 && share_context(requests[i - 1], requests[i])) {
      ++groups.back().count;
    } else {
      groups.push_back({i, 1});
    }
  }
  std::stable_sort(groups.begin(), groups.end(), [&](const Group& a, const Group& b) {
    return requests[a.first].num_context > requests[b.first].num_context;
  });
  return groups;
}

SharedContextScorer::Sizes SharedContextScorer::sizes_of(std::span<const ScoreRequest> requests,
                                                         const std::vector<Group>& groups) {
  Sizes sizes;
  for (const ScoreRequest& request : requests) {
    sizes.context = std::max(sizes.context, context_columns(request));
    sizes.ending = std::max(sizes.ending, ending_columns(request));
  }
  const int64_t most = Scorer::kBatchTokens / sizes.columns();
  sizes.batch_size = std::min(std::clamp<int64_t>(most, 1, kMostContexts), std::ssize(groups));
  return sizes;
}

SharedContextScorer::SharedContextScorer(Backend& backend, const InferenceWeights& weights,
                                         std::span<const ScoreRequest> requests,
                                         const std::vector<Group>& groups, const Sizes& sizes)
    : backend_(backend),
      requests_(requests),
      groups_(groups),
      sizes_(sizes),
      model_(backend, shape_for(weights, sizes.batch_size, sizes.columns()),
             {.logits_chunk = std::min(kLogitsOfContexts, sizes.batch_size * sizes.columns()),
              .num_kept_keys = sizes.context + sizes.ending}) {
  const int64_t B = sizes.batch_size, T = model_.shape().seq_length;
  for (const auto& [name, tensor] : {std::pair{"tokens", &tokens_},
                                     {"targets", &targets_},
                                     {"positions", &positions_},
                                     {"most likely tokens", &most_likely_}}) {
    model_.plan().add(MemoryClass::kBatch, name, tensor, DType::kInt32, {B, T});
  }
  model_.plan().add(MemoryClass::kBatch, "document bounds", &document_bounds_, DType::kInt32,
                    {B, sizes.context + sizes.ending, 2});
  model_.plan().add(MemoryClass::kBatch, "loss", &loss_, DType::kFloat32, {1});
}

// A scorer without a device tells which operations there will be, batch by batch: benchmarks have
// millions of them.
SharedContextScorer::SharedContextScorer(Backend& backend, const InferenceWeights& weights,
                                         std::span<const ScoreRequest> requests)
    : SharedContextScorer(backend, weights, requests, groups_of(requests),
                          sizes_of(requests, groups_of(requests))) {
  RecordingBackend recorder;
  SharedContextScorer planned(recorder, weights, requests, groups_, sizes_);
  planned.model_.allocate(0);
  int64_t workspace_bytes = 0;
  planned.score([&](size_t) {
    workspace_bytes = std::max(workspace_bytes, backend.workspace_bytes(recorder.operations()));
    recorder.clear();
  });
  model_.allocate(workspace_bytes, weights.shared);
  if (weights.stored != nullptr) model_.load(*weights.stored);
}

std::vector<Score> SharedContextScorer::score(const std::function<void(size_t)>& on_progress) {
  std::vector<Score> scores(requests_.size());
  size_t done = 0;
  for (size_t first = 0; first < groups_.size(); first += static_cast<size_t>(sizes_.batch_size)) {
    const size_t count = std::min(groups_.size() - first, static_cast<size_t>(sizes_.batch_size));
    const std::span<const Group> batch = std::span(groups_).subspan(first, count);
    score_batch(batch, scores);
    for (const Group& group : batch) done += group.count;
    on_progress(done);
  }
  return scores;
}

void SharedContextScorer::score_batch(std::span<const Group> batch, std::vector<Score>& scores) {
  const int64_t B = sizes_.batch_size, C = context_columns(context_of(batch.front()));
  set_contexts(batch, C);
  if (C > 0) {
    std::vector<int32_t> tokens(static_cast<size_t>(B * C));
    for (size_t i = 0; i < batch.size(); ++i) {
      const ScoreRequest& context = context_of(batch[i]);
      std::copy_n(context.tokens.begin(), context_columns(context),
                  tokens.begin() + static_cast<std::ptrdiff_t>(i) * C + pad_[i]);
    }
    forward(0, C, tokens);
  }
  size_t most = 0;
  for (const Group& group : batch) most = std::max(most, group.count);
  for (size_t number = 0; number < most; ++number) score_endings(batch, C, number, scores);
}

// Contexts that are not there, of the last batch, have no columns.
void SharedContextScorer::set_contexts(std::span<const Group> batch, int64_t num_columns) {
  const int64_t B = sizes_.batch_size, S = document_bounds_.shape(1);
  pad_.assign(static_cast<size_t>(B), num_columns);
  for (size_t i = 0; i < batch.size(); ++i)
    pad_[i] = num_columns - context_columns(context_of(batch[i]));
  std::vector<int32_t> bounds;
  for (const int64_t pad : pad_) {
    for (int64_t column = 0; column < S; ++column) {
      bounds.push_back(static_cast<int32_t>(column < pad ? 0 : pad));
      bounds.push_back(static_cast<int32_t>(column < pad ? pad : S));
    }
  }
  backend_.copy(document_bounds_.data(), bounds.data(), document_bounds_.num_bytes(),
                Stream::kCompute);
}

MicroBatch SharedContextScorer::forward(int64_t first_column, int64_t T,
                                        const std::vector<int32_t>& tokens) {
  const int64_t B = sizes_.batch_size;
  MicroBatch batch;
  batch.first_token = first_column;
  batch.document_bounds = document_bounds_;
  batch.tokens = view(tokens_, {B, T});
  batch.targets = view(targets_, {B, T});
  backend_.copy(tokens_.data(), tokens.data(), B * T * 4, Stream::kCompute);
  if (model_.shape().has_position_table) {
    // A sequence that has ended is computed further beside the others.
    const int64_t last = model_.shape().max_positions - 1;
    std::vector<int32_t> positions;
    for (const int64_t pad : pad_) {
      for (int64_t column = first_column; column < first_column + T; ++column)
        positions.push_back(static_cast<int32_t>(std::clamp<int64_t>(column - pad, 0, last)));
    }
    batch.positions = view(positions_, {B, T});
    backend_.copy(positions_.data(), positions.data(), B * T * 4, Stream::kCompute);
  }
  model_->set_sequence_length(T);
  model_->forward(batch, /*training=*/false);
  return batch;
}

// Computes ending `number` of each context that has so many.
void SharedContextScorer::score_endings(std::span<const Group> batch, int64_t first_column,
                                        size_t number, std::vector<Score>& scores) {
  const auto request_of = [&](const Group& group) {
    return number < group.count ? &requests_[group.first + number] : nullptr;
  };
  int64_t T = 1;
  for (const Group& group : batch) {
    if (const ScoreRequest* request = request_of(group)) T = std::max(T, ending_columns(*request));
  }
  const int64_t B = sizes_.batch_size;
  std::vector<int32_t> tokens(static_cast<size_t>(B * T)), targets(tokens.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    const ScoreRequest* request = request_of(batch[i]);
    if (request == nullptr) continue;
    const auto row = static_cast<std::ptrdiff_t>(i) * T;
    const auto first = request->tokens.begin() + context_columns(*request);
    std::copy(first, request->tokens.end() - 1, tokens.begin() + row);
    std::copy(first + 1, request->tokens.end(), targets.begin() + row);
  }
  backend_.copy(targets_.data(), targets.data(), B * T * 4, Stream::kCompute);
  const MicroBatch computed = forward(first_column, T, tokens);
  model_->loss(loss_, computed, {.most_likely = view(most_likely_, {B * T})});
  const ScoredTokens scored(backend_, model_->token_losses(), most_likely_, B * T);
  for (size_t i = 0; i < batch.size(); ++i) {
    if (const ScoreRequest* request = request_of(batch[i]))
      scores[batch[i].first + number] = scored.score(*request, static_cast<int64_t>(i) * T);
  }
}

}  // namespace weft
