// The sizes of the model on one rank, at the present sequence length. Legend as in model_shape.h:
// N = B*T tokens of a micro-batch, R the rows of the residual stream that this rank has of them.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>

#include "trainer/config/memory_plan.h"
#include "trainer/config/model_shape.h"
#include "trainer/config/tensor_views.h"
#include "trainer/parallel/parallel_layout.h"

namespace weft {

struct LocalShape {
  ModelShape model;
  ParallelLayout layout;

  int64_t num_tokens() const { return model.micro_batch_size * model.seq_length; }  // N
  int64_t num_rows() const { return num_tokens() / layout.num_row_shares(); }       // R
  int64_t num_heads() const { return model.num_heads / layout.tp_size; }            // H/tp
  int64_t num_groups() const { return model.num_groups() / layout.tp_size; }        // G/tp
  int64_t attention_size() const { return num_heads() * model.head_size; }          // H*D/tp
  int64_t qkv_size() const { return model.qkv_size() / layout.tp_size; }            // (H+2G)*D/tp
  int64_t ffn_size() const { return model.ffn_size / layout.tp_size; }              // F/tp
  int64_t fc1_size() const { return model.fc1_size() / layout.tp_size; }  // F/tp; of a GLU 2F/tp
  int64_t vocab_rows() const { return model.padded_vocab_size / layout.tp_size; }  // Vp/tp
  int64_t first_word() const { return layout.tp_rank * vocab_rows(); }
  bool has_glu() const { return model.glu != Glu::kNone; }
  // With sequence parallelism ranks share the rows of the stream.
  bool shares_rows() const { return layout.num_row_shares() > 1; }
  int64_t first_row() const { return shares_rows() ? layout.tp_rank * num_rows() : 0; }
};

// Takes one of the model's buffers, in the shape that it has at the present sequence length.
using AddBuffer = std::function<void(MemoryClass, const std::string& name, Tensor*, DType,
                                     std::initializer_list<int64_t> shape)>;

}  // namespace weft
