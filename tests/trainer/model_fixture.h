// Small models and batches for tests of the trainer. Tests that use them are compiled for the CPU
// and, with WEFT_TEST_CUDA, for the GPU (tests/needs_gpu.h).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/numbers/elements.h"
#include "kernels/numbers/philox.h"
#include "trainer/data/document_bounds.h"
#include "trainer/step/trainer.h"
#ifdef WEFT_TEST_CUDA
#include "tests/needs_gpu.h"
#endif

namespace weft {

#ifdef WEFT_TEST_CUDA
inline std::unique_ptr<Backend> create_test_backend() { return create_cuda_backend(0); }
constexpr int64_t kTestHeadSize = 64;  // the smallest whose flash kernels are not padded
#else
inline std::unique_ptr<Backend> create_test_backend() { return create_cpu_backend(); }
constexpr int64_t kTestHeadSize = 16;
#endif

// H*D differs from C, F from 4C, S from T and V from Vp, so that no size can replace another.
inline TrainerOptions small_options() {
  TrainerOptions options;
  ModelShape& shape = options.shape;
  shape.num_layers = 2;
  shape.hidden_size = 32;
  shape.num_heads = 3;
  shape.head_size = kTestHeadSize;
  shape.ffn_size = 64;
  shape.seq_length = 16;
  shape.max_positions = 24;
  shape.vocab_size = 50;
  shape.padded_vocab_size = 64;
  shape.micro_batch_size = 2;
  shape.init_method_std = 0.1;
  return options;
}

// Owns the memory of a GlobalBatch of pseudo-random tokens; targets are the following tokens.
class HostBatch {
 public:
  HostBatch(const ModelShape& shape, int64_t num_samples, uint64_t seed = 0)
      : num_micro_batches_(num_samples / shape.micro_batch_size),
        seq_length_(shape.seq_length),
        tokens_per_micro_batch_(shape.micro_batch_size * shape.seq_length) {
    uint64_t element = 0;
    for (int64_t sample = 0; sample < num_samples; ++sample) {
      int32_t token = 0;
      for (int64_t t = 0; t <= shape.seq_length; ++t) {
        if (t > 0) tokens_.push_back(token);
        const uint32_t word = philox_word(seed, 7, element++);
        token = static_cast<int32_t>(word % static_cast<uint32_t>(shape.vocab_size));
        if (t > 0) targets_.push_back(token);
      }
    }
  }
  // Masks out every token with (idx % period) == 0.
  void mask_every(size_t period) {
    for (size_t i = 0; i < tokens_.size(); ++i) mask_.push_back(i % period == 0 ? 0.0F : 1.0F);
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (i % static_cast<size_t>(tokens_per_micro_batch_) == 0) mask_sums_.push_back(0);
      mask_sums_.back() += static_cast<double>(mask_[i]);
    }
  }
  // Takes every token below 8 for the end of a document, one of six tokens or so.
  void split_documents() {
    std::vector<int32_t> marked = tokens_;
    for (int32_t& token : marked) token = token < 8 ? -1 : token;
    bounds_.resize(2 * tokens_.size());
    for (size_t row = 0; row < tokens_.size(); row += static_cast<size_t>(seq_length_))
      find_bounds_by_tokens(&marked[row], seq_length_, -1, &bounds_[2 * row]);
  }
  GlobalBatch view() const {
    GlobalBatch batch;
    batch.num_micro_batches = num_micro_batches_;
    batch.seq_length = seq_length_;
    batch.tokens = tokens_.data();
    batch.targets = targets_.data();
    if (!mask_.empty()) {
      batch.loss_mask = mask_.data();
      batch.mask_sums = mask_sums_.data();
    }
    if (!bounds_.empty()) batch.document_bounds = bounds_.data();
    return batch;
  }
  std::vector<int32_t>& tokens() { return tokens_; }
  std::vector<int32_t>& targets() { return targets_; }
  const std::vector<int32_t>& document_bounds() const { return bounds_; }

 private:
  int64_t num_micro_batches_, seq_length_, tokens_per_micro_batch_;
  std::vector<int32_t> tokens_, targets_, bounds_;
  std::vector<float> mask_;
  std::vector<double> mask_sums_;
};

// A backend with a trainer on it, allocated and with initial weights.
struct TrainerOnDevice {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Trainer> trainer;
  explicit TrainerOnDevice(const TrainerOptions& options,
                           std::unique_ptr<Backend> on = create_test_backend(),
                           const ProcessGroups& groups = lone_process_groups())
      : backend(std::move(on)), trainer(std::make_unique<Trainer>(*backend, options, groups)) {
    trainer->allocate();
    trainer->initialize_parameters();
  }
  Trainer* operator->() { return trainer.get(); }
};

// Returns device memory as floats on the host.
inline std::vector<float> to_host(Backend& backend, Tensor tensor) {
  std::vector<char> bytes(static_cast<size_t>(tensor.num_bytes()));
  backend.copy(bytes.data(), tensor.data(), tensor.num_bytes(), Stream::kCompute);
  backend.synchronize();
  std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = load_element(bytes.data(), tensor.dtype(), static_cast<int64_t>(i));
  }
  return values;
}

// Steps [first, end) of a run over the same four batches.
inline std::vector<StepResult> run_steps(TrainerOnDevice& model, uint64_t first, uint64_t end) {
  std::vector<StepResult> results;
  for (uint64_t step = first; step < end; ++step) {
    const HostBatch batch(model->shape(), 4, step % 4);
    model->step(batch.view(), {.learning_rate = 3e-3});
    results.push_back(model->result());
  }
  return results;
}

// Parameters and the optimizer's state.
inline std::vector<std::vector<float>> state_of(TrainerOnDevice& model) {
  std::vector<std::vector<float>> values;
  for (const StateTensor& tensor : model->state_tensors(/*optimizer=*/true))
    values.push_back(to_host(*model.backend, tensor.tensor));
  return values;
}

inline void to_device(Backend& backend, Tensor tensor, const std::vector<float>& values) {
  backend.copy(tensor.data(), values.data(), tensor.num_bytes(), Stream::kCompute);
  backend.synchronize();
}

// Returns ||a - b|| / ||b||, the relative error of a whole tensor. Single elements of a gradient
// may cancel to zero, where their own relative error has no meaning.
inline double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

}  // namespace weft
