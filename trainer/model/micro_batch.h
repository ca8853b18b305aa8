// What a chunk of the model computes at a time.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/numbers/tensor.h"
#include "trainer/ranks/flight_recorder.h"

namespace weft {

// B samples on the device. `iteration` and `first_sample` key dropout, so that masks do not depend
// on the size of micro-batches or on the topology.
struct MicroBatch {
  Tensor tokens;     // (B,T) int32; empty where the chunk has no embedding
  Tensor targets;    // (B,T) int32; empty where the chunk has no head
  Tensor loss_mask;  // (B,T) fp32, or empty: all ones
  // (B,T,2) int32: the documents of the tokens; empty where the shape needs none
  Tensor document_bounds;
  // Where keys and values are kept (ActivationOptions::num_kept_keys), the tokens follow
  // first_token others of their samples, and document_bounds are (B,num_kept_keys,2). The rows of
  // the table of positions that the tokens get are (B,T) int32 then; empty: there is no table.
  int64_t first_token = 0;
  Tensor positions;
  // (1) int32, or empty: tokens stand so much further, by a number that the device reads.
  Tensor offset;
  // (L,4,2) fp32, or empty: forward adds the errors of fp8 products there (LinearLayers::Context)
  Tensor fp8_errors;
  int64_t iteration = 0;
  int64_t first_sample = 0;            // position of the first sample in the global batch
  int64_t chunk = 0;                   // the chunk of the rank that computes it
  int64_t slot = 0;                    // where its activations are kept for backward
  int64_t gradient_slot = 0;           // where the gradient of the chunk's output is
  int64_t embedding_slot = 0;          // where its embedding is kept for backward
  FlightRecorder* recorder = nullptr;  // gets the layers as operations, if there is one
};

// Records the work on a layer of the model, where the micro-batch has a recorder.
inline FlightRecorder::Scope layer_scope(const MicroBatch& batch, const char* pass, int64_t layer) {
  std::string name;
  if (batch.recorder != nullptr) name = pass + (" of layer " + std::to_string(layer));
  return {batch.recorder, std::move(name)};
}

// The places where dropout is applied.
enum class DropoutSite : uint64_t { kEmbedding, kAttention, kAttentionBranch, kMlpBranch };

// Returns the stream of random numbers of a dropout: iteration, layer and site in the 63 low bits.
// The highest bit is clear; initial weights have it set.
inline uint64_t dropout_stream(const MicroBatch& batch, int64_t layer, DropoutSite site) {
  return (static_cast<uint64_t>(batch.iteration) << 24 | static_cast<uint64_t>(layer) << 4 |
          static_cast<uint64_t>(site)) &
         ~(uint64_t{1} << 63);
}

}  // namespace weft
