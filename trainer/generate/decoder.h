// Continues a batch of token sequences, one token of each at a time. Keys and values of the tokens
// before are kept, so that a step computes one token of each sequence.
//
// Sequences of different lengths end in the same column; what is before them is a document of its
// own, which no token of theirs sees:
//
//   column      0 1 2 3 4   5 6 7
//   sequence 0  a b c d e | f g h      the prompt: columns before the last one are computed
//   sequence 1  . . a b c | d e f      together (start), then one column a step, which gives the
//                                      token of the next
//
// Steps differ in numbers on the device alone, their places: so a GPU replays the second one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "trainer/generate/inference_model.h"

namespace weft {

// How a token is chosen; the fields are those of SampleTokens (kernels/operations/generation.h).
struct Sampling {
  float temperature = 1.0F;  // 0: the most likely token
  int64_t top_k = 0;         // 0: all
  float top_p = 1.0F;
  uint64_t seed = 1234;
};

struct DecoderSizes {
  int64_t batch_size = 1;
  int64_t longest_prompt = 1;
  int64_t num_tokens = 1;       // that are generated
  int64_t vocabulary_size = 0;  // tokens that may be chosen: the first ones
};

class Decoder {
 public:
  static constexpr int64_t kMaxAhead = 4;

  // Plans and allocates all memory, and reads weights that are stored. The backend, and weights
  // that are shared, must outlive this.
  Decoder(Backend& backend, const InferenceWeights& weights, const DecoderSizes& sizes,
          const Sampling& sampling);

  int64_t device_bytes() { return model_.plan().device_bytes(); }

  // Takes up to batch_size prompts of up to longest_prompt tokens, each with one at least. Sequence
  // i draws the random numbers of stream first_stream + i.
  void start(std::span<const std::vector<int32_t>> prompts, int64_t first_stream);
  // Enqueues the choice of the next token of each sequence, at most num_tokens times.
  void step();
  // Waits for the tokens that step number `step`, from 0 on, has chosen: (batch_size). It must be
  // one of the last kMaxAhead.
  std::span<const int32_t> tokens_of(int64_t step);

 private:
  Decoder(Backend& backend, const ModelShape& shape, const DecoderSizes& sizes,
          const Sampling& sampling);
  void allocate(int64_t workspace_bytes, Tensor shared = {});
  void set_positions(std::span<const std::vector<int32_t>> prompts);
  // Computes the columns [0, num_columns) of the prompts.
  void prefill(std::span<const std::vector<int32_t>> prompts, int64_t num_columns);
  int32_t position(int64_t sequence, int64_t column) const;
  void enqueue_step();
  void upload(Tensor to, const std::vector<int32_t>& values);

  Backend& backend_;
  const DecoderSizes sizes_;
  const Sampling sampling_;
  InferenceModel model_;
  int64_t longest_ = 0;       // tokens of the longest prompt of the batch
  int64_t num_steps_ = 0;     // since start()
  std::vector<int64_t> pad_;  // columns before each sequence
  bool is_padded_ = false;
  Tensor tokens_, positions_;     // (B,T) int32, of some columns of prompts
  Tensor places_;                 // (num_tokens,B+2) int32 of each step: positions, column, number
  Tensor place_;                  // (B+2) int32: those of the present one
  Tensor document_bounds_;        // (B,S,2) int32
  Tensor streams_;                // (B) int32
  Tensor newest_;                 // (B) int32: the prompts' last column, then what a step chooses
  Tensor host_tokens_;            // (num_tokens,B) int32 in pinned memory: what steps have chosen
  std::vector<EventId> arrived_;  // by step, modulo kMaxAhead
  std::function<void()> replay_step_;
};

}  // namespace weft
