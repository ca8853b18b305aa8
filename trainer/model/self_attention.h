// Self-attention of a layer: the product for queries, keys and values, positions, attention itself
// and the product that makes the branch.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "trainer/model/layer.h"

namespace weft {

// Returns the slopes of ALiBi for all heads of a model, positive: a head's scores sink by its slope
// with each token between query and key. Those of n heads are 2^(-8/n), 2^(-16/n), ..., 2^-8 where
// n is a power of two. Otherwise those of the power of two below n come first, and then every
// second one of the power above, from its first on, as in the authors' code and in BLOOM.
// [Press et al. 2022, arXiv:2108.12409; github.com/ofirpress/attention_with_linear_biases;
// transformers, modeling_bloom.py build_alibi_tensor]
std::vector<float> alibi_slopes(int64_t num_heads);

// Returns the frequencies of rotary positions, one for each pair of elements: those by which
// positions are multiplied. With a scaling factor those whose wavelength is above 8,192 positions
// are divided by it, those with one below 2,048 stay, and what is between is blended, as in
// Llama-3.1. [transformers, modeling_rope_utils.py _compute_llama3_parameters; Megatron-LM
// megatron/core/models/common/embeddings/rotary_pos_embedding.py _apply_scaling]
std::vector<float> rotary_frequencies(const ModelShape& shape);

class SelfAttention {
 public:
  // All references must outlive this.
  SelfAttention(Backend& backend, const LocalShape& shape, LinearLayers& linears,
                ResidualStream& stream, int64_t num_layers, int64_t num_kept_keys)
      : backend_(backend),
        shape_(shape),
        linears_(linears),
        stream_(stream),
        longest_sequence_(shape.model.seq_length),
        num_kept_keys_(num_kept_keys),
        kept_(static_cast<size_t>(num_kept_keys > 0 ? num_layers : 0)) {}
  void for_each_buffer(const AddBuffer& add);
  // Uploads the angles of rotary positions and ALiBi's slopes, once.
  void fill_tables();

  int64_t longest_sequence() const { return longest_sequence_; }
  bool keeps_keys() const { return num_kept_keys_ > 0; }

  // Computes the branch of the normalised input.
  void forward(const Layer& layer, const LinearLayers::Input& input);
  // Turns the gradient of the branch into that of the norm's output, and computes those of the
  // weights. The output of the norm must be there.
  void backward(const Layer& layer, bool accumulate);

 private:
  // Normalises queries and keys, if the model does.
  void normalise(const Layer& layer);
  void normalise_backward(const Layer& layer, bool accumulate);
  // Turns queries and keys by their positions, or back.
  void rotate(Tensor qkv, const MicroBatch& batch, bool inverse);
  float scale() const;
  // Returns the queries of the layer's tokens with the keys and values that they may see.
  Qkv with_kept_keys(const Layer& layer);
  // Returns the documents that attention does not leave.
  Tensor documents(const MicroBatch& batch) const {
    return shape_.model.masks_other_documents ? batch.document_bounds : Tensor();
  }
  void fill_angles();
  void fill_slopes();

  Backend& backend_;
  const LocalShape& shape_;
  LinearLayers& linears_;
  ResidualStream& stream_;
  struct KeptKeys {
    Tensor keys, values;  // (B,S,G/tp,D), S = num_kept_keys_
  };
  const int64_t longest_sequence_;  // T of the buffers
  const int64_t num_kept_keys_;
  std::vector<KeptKeys> kept_;  // by layer of the rank; none in training
  Tensor angles_;               // (T or S,2,P) fp32 of rotary positions
  Tensor slopes_;               // (H/tp) fp32 of ALiBi
};

}  // namespace weft
