#include "trainer/generate/decoder.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/recording_backend.h"

namespace weft {

namespace {

// Columns of prompts are computed together as far as they are so many tokens: enough for the
// products' full rate, and few enough for their activations to stay small beside the weights.
constexpr int64_t kPrefillTokens = 4096;

ModelShape decoder_shape(const InferenceWeights& weights, const DecoderSizes& sizes) {
  const int64_t columns = std::max<int64_t>(1, kPrefillTokens / sizes.batch_size);
  ModelShape shape = inference_shape(weights, sizes.batch_size,
                                     std::clamp<int64_t>(sizes.longest_prompt - 1, 1, columns));
  shape.restarts_positions = shape.masks_other_documents = true;
  return shape;
}

}  // namespace

Decoder::Decoder(Backend& backend, const ModelShape& shape, const DecoderSizes& sizes,
                 const Sampling& sampling)
    : backend_(backend),
      sizes_(sizes),
      sampling_(sampling),
      model_(backend, shape,
             {.logits_chunk = sizes.batch_size,
              .num_kept_keys = sizes.longest_prompt + sizes.num_tokens}) {
  const int64_t B = sizes.batch_size, S = sizes.longest_prompt + sizes.num_tokens;
  const auto add = [&](const char* name, Tensor* tensor, std::initializer_list<int64_t> sizes_of) {
    model_.plan().add(MemoryClass::kBatch, name, tensor, DType::kInt32, sizes_of);
  };
  add("tokens", &tokens_, {B, shape.seq_length});
  add("positions", &positions_, {B, shape.seq_length});
  add("newest tokens", &newest_, {B});
  add("places of steps", &places_, {sizes.num_tokens, B + 2});
  add("place of a step", &place_, {B + 2});
  add("document bounds", &document_bounds_, {B, S, 2});
  add("streams", &streams_, {B});
  model_.plan().add(MemoryClass::kPinnedHost, "chosen tokens", &host_tokens_, DType::kInt32,
                    {sizes.num_tokens, B});
}

// A decoder without a device tells which operations the longest prompt needs, and so their scratch.
Decoder::Decoder(Backend& backend, const InferenceWeights& weights, const DecoderSizes& sizes,
                 const Sampling& sampling)
    : Decoder(backend, decoder_shape(weights, sizes), sizes, sampling) {
  RecordingBackend recorder;
  Decoder planned(recorder, model_.shape(), sizes, sampling);
  planned.allocate(0);
  planned.start({{std::vector<int32_t>(static_cast<size_t>(sizes.longest_prompt))}}, 0);
  planned.step();
  allocate(backend.workspace_bytes(recorder.operations()), weights.shared);
  if (weights.stored != nullptr) model_.load(*weights.stored);
}

void Decoder::allocate(int64_t workspace_bytes, Tensor shared) {
  model_.allocate(workspace_bytes, shared);
  for (int64_t i = 0; i < kMaxAhead; ++i) arrived_.push_back(backend_.create_event());
}

int32_t Decoder::position(int64_t sequence, int64_t column) const {
  const ModelShape& shape = model_.shape();
  const int64_t position = std::max<int64_t>(0, column - pad_[static_cast<size_t>(sequence)]);
  // A sequence that has no positions left is computed further beside the others.
  return static_cast<int32_t>(shape.has_position_table ? std::min(position, shape.max_positions - 1)
                                                       : position);
}

void Decoder::upload(Tensor to, const std::vector<int32_t>& values) {
  backend_.copy(to.data(), values.data(), static_cast<int64_t>(values.size() * sizeof(int32_t)),
                Stream::kCompute);
}

void Decoder::start(std::span<const std::vector<int32_t>> prompts, int64_t first_stream) {
  if (prompts.empty()) throw std::logic_error("decoder: there is no prompt");
  longest_ = 0;
  num_steps_ = 0;
  for (const auto& prompt : prompts)
    longest_ = std::max(longest_, static_cast<int64_t>(prompt.size()));
  set_positions(prompts);
  std::vector<int32_t> last(static_cast<size_t>(sizes_.batch_size)), streams(last.size());
  for (size_t i = 0; i < last.size(); ++i) {
    if (i < prompts.size()) last[i] = prompts[i].back();
    streams[i] = static_cast<int32_t>(first_stream + static_cast<int64_t>(i));
  }
  upload(newest_, last);
  upload(streams_, streams);
  prefill(prompts, longest_ - 1);
  model_->set_sequence_length(1);
}

// Sequences that are not there are one token long.
void Decoder::set_positions(std::span<const std::vector<int32_t>> prompts) {
  const int64_t B = sizes_.batch_size, S = document_bounds_.shape(1);
  pad_.assign(static_cast<size_t>(B), longest_ - 1);
  for (size_t i = 0; i < prompts.size(); ++i)
    pad_[i] = longest_ - static_cast<int64_t>(prompts[i].size());
  is_padded_ = std::any_of(pad_.begin(), pad_.end(), [](int64_t pad) { return pad > 0; });
  std::vector<int32_t> bounds, places;
  for (const int64_t pad : pad_) {
    for (int64_t column = 0; column < S; ++column) {
      bounds.push_back(static_cast<int32_t>(column < pad ? 0 : pad));
      bounds.push_back(static_cast<int32_t>(column < pad ? pad : S));
    }
  }
  for (int64_t step = 0; step < sizes_.num_tokens; ++step) {
    const int64_t column = longest_ - 1 + step;
    for (int64_t i = 0; i < B; ++i) places.push_back(position(i, column));
    places.push_back(static_cast<int32_t>(column));
    places.push_back(static_cast<int32_t>(step));
  }
  upload(document_bounds_, bounds);
  upload(places_, places);
}

void Decoder::prefill(std::span<const std::vector<int32_t>> prompts, int64_t num_columns) {
  const int64_t B = sizes_.batch_size, most = model_.shape().seq_length;
  for (int64_t first = 0; first < num_columns; first += most) {
    const int64_t count = std::min(most, num_columns - first);
    std::vector<int32_t> tokens, positions;
    for (int64_t i = 0; i < B; ++i) {
      for (int64_t column = first; column < first + count; ++column) {
        const int64_t at = column - pad_[static_cast<size_t>(i)];
        const bool is_there = i < static_cast<int64_t>(prompts.size()) && at >= 0;
        tokens.push_back(is_there ? prompts[static_cast<size_t>(i)][static_cast<size_t>(at)] : 0);
        positions.push_back(position(i, column));
      }
    }
    upload(tokens_, tokens);
    upload(positions_, positions);
    MicroBatch batch;
    batch.first_token = first;
    if (is_padded_) batch.document_bounds = document_bounds_;
    batch.tokens = view(tokens_, {B, count});
    if (model_.shape().has_position_table) batch.positions = view(positions_, {B, count});
    model_->set_sequence_length(count);
    model_->forward(batch, /*training=*/false);
  }
}

void Decoder::step() {
  const int64_t B = sizes_.batch_size, n = num_steps_++;
  backend_.copy(place_.data(), range_of(places_, n * (B + 2), B + 2).data(), place_.num_bytes(),
                Stream::kCompute);
  if (replay_step_) {
    replay_step_();
  } else {
    enqueue_step();
    replay_step_ = backend_.repeatable([this] { enqueue_step(); });
  }
  backend_.copy(range_of(host_tokens_, n * B, B).data(), newest_.data(), newest_.num_bytes(),
                Stream::kCompute);
  backend_.record(arrived_[static_cast<size_t>(n % kMaxAhead)], Stream::kCompute);
}

// All that changes from step to step is in place_ and newest_.
void Decoder::enqueue_step() {
  const int64_t B = sizes_.batch_size;
  MicroBatch batch;
  batch.tokens = view(newest_, {B, 1});
  if (model_.shape().has_position_table) batch.positions = view(range_of(place_, 0, B), {B, 1});
  batch.offset = range_of(place_, B, 1);
  batch.document_bounds = document_bounds_;
  model_->forward(batch, /*training=*/false);
  backend_.run(SampleTokens{.tokens = newest_,
                            .logits = model_->logits(),
                            .streams = streams_,
                            .vocabulary_size = sizes_.vocabulary_size,
                            .temperature = sampling_.temperature,
                            .top_k = sampling_.top_k,
                            .top_p = sampling_.top_p,
                            .seed = sampling_.seed,
                            .offset = range_of(place_, B + 1, 1)});
}

std::span<const int32_t> Decoder::tokens_of(int64_t step) {
  backend_.synchronize(arrived_[static_cast<size_t>(step % kMaxAhead)]);
  const int64_t B = sizes_.batch_size;
  return {range_of(host_tokens_, step * B, B).as<const int32_t>(), static_cast<size_t>(B)};
}

}  // namespace weft
