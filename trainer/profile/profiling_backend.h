// A backend that records each operation of another one while a step is profiled (operation_recorder.h)
// and names it for Nsight Systems (nvtx_range.h). It changes no argument and no order, so a profiled
// step computes the same bits.
#pragma once

#include <memory>

#include "kernels/forwarding_backend.h"
#include "trainer/profile/operation_recorder.h"

namespace weft {

class ProfilingBackend final : public ForwardingBackend {
 public:
  explicit ProfilingBackend(std::unique_ptr<Backend> inner)
      : ForwardingBackend(std::move(inner)), recorder_(ForwardingBackend::inner()) {}

  OperationRecorder& recorder() { return recorder_; }

  // Copies on the compute stream are operations of a step; others run beside it.
  void copy(void* dst, const void* src, int64_t num_bytes, Stream stream) override;
  void zero(Tensor tensor) override;
  void cast(Tensor dst, Tensor src) override;
  void record(EventId event, Stream stream) override;
  void wait(Stream stream, EventId event) override;
  void embedding_forward(Tensor out, Tensor tokens, Tensor word, int64_t first_word) override;
  void embedding_backward(Tensor dword, Tensor dout, Tensor tokens, int64_t first_word) override;
  void residual_norm_forward(const ResidualNorm& args) override;
  void residual_norm_backward(const ResidualNormBackward& args) override;
  void linear_forward(Tensor out, Tensor inp, Tensor weight, Tensor bias) override;
  void linear_backward_input(Tensor dinp, Tensor dout, Tensor weight) override;
  void linear_gelu_forward(Tensor out, Tensor pre, Tensor inp, Tensor weight, Tensor bias,
                           Gelu gelu) override;
  void linear_gelu_backward_input(Tensor dpre, Tensor dbias, Tensor dout, Tensor weight, Tensor pre,
                                  Gelu gelu, bool accumulate) override;
  void linear_backward_weight(Tensor dweight, Tensor dbias, Tensor dout, Tensor inp,
                              bool accumulate) override;
  void gelu_forward(Tensor out, Tensor pre, Gelu gelu) override;
  void quantize(const Quantize& args) override;
  void transpose_fp8(Tensor transposed, Tensor rows) override;
  void fp8_product(const Fp8Product& args) override;
  void update_fp8_scaling(const Fp8ScalingUpdate& args) override;
  void squared_error(Tensor out, Tensor value, Tensor reference, bool accumulate) override;
  void glu_forward(Tensor out, Tensor pre, Glu glu) override;
  void glu_backward(Tensor dpre, Tensor dout, Tensor pre, Glu glu) override;
  void rotate(const Rotary& args) override;
  void expand_groups(Tensor expanded, Tensor grouped) override;
  void sum_groups(Tensor grouped, Tensor expanded) override;
  void attention_forward(const Attention& args) override;
  void attention_backward(const AttentionBackward& args) override;
  void cross_entropy(Tensor losses, Tensor logits, Tensor targets, Tensor loss_mask,
                     int64_t vocabulary_size, float gradient_scale, bool gradient) override;
  void cross_entropy_statistics(Tensor statistics, Tensor logits, Tensor targets,
                                int64_t first_word, int64_t vocabulary_size) override;
  void cross_entropy_gradient(Tensor losses, Tensor logits, Tensor statistics, Tensor targets,
                              Tensor loss_mask, int64_t first_word, int64_t vocabulary_size,
                              float gradient_scale, bool gradient) override;
  void sample_losses(Tensor out, Tensor losses, Tensor loss_mask) override;
  void sum(Tensor out, Tensor inp, float scale, bool accumulate) override;
  void sum_of_squares(Tensor out, Tensor inp) override;
  void clip_coefficient(Tensor clip, Tensor sum_of_squares, float max_norm) override;
  void adamw(const AdamW& args) override;
  void split_masters(Tensor param, Tensor remainder, Tensor master) override;
  void join_masters(Tensor master, Tensor param, Tensor remainder) override;

 private:
  OperationRecorder recorder_;
};

}  // namespace weft
