// The CPU backend: checks arguments, then calls the operation of the same name in this folder.
#include "kernels/backend.h"

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "kernels/check_shapes.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/device.h"
#include "kernels/cpu/operations.h"

namespace weft {

namespace cpu {

namespace {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(int num_threads) : context_(num_threads) { openblas_set_num_threads(1); }

  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string description() const override {
    const int n = context_.num_threads();
    return "CPU (" + std::to_string(n) + (n == 1 ? " thread)" : " threads)");
  }
  int64_t total_memory_bytes() const override { return Device::total_memory_bytes(); }
  int64_t free_memory_bytes() const override { return Device::free_memory_bytes(); }
  void* allocate(int64_t num_bytes, Memory) override { return device_.allocate(num_bytes); }
  void release(void* data, Memory) override { device_.release(data); }
  void copy(void* dst, const void* src, int64_t num_bytes, Stream) override {
    if (num_bytes > 0) std::memmove(dst, src, static_cast<size_t>(num_bytes));
  }
  void zero(Tensor tensor) override { cpu::zero(context_, tensor); }
  void cast(Tensor dst, Tensor src) override {
    check_cast(dst, src);
    cpu::cast(context_, dst, src);
  }
  EventId create_event() override { return device_.create_event(); }
  void record(EventId event, Stream) override { device_.record(event); }
  void wait(Stream, EventId event) override { device_.check_event("wait", event); }
  void synchronize(EventId event) override { device_.check_event("synchronize", event); }
  void synchronize() override {}
  float elapsed_ms(EventId start, EventId stop) override { return device_.elapsed_ms(start, stop); }

  int64_t workspace_bytes(const WorkspaceShape& shape) const override {
    const int64_t floats =
        std::max({linear_scratch_floats(), embedding_scratch_floats(shape.C),
                  layernorm_scratch_floats(shape.C), cross_entropy_scratch_floats(shape.Vp),
                  attention_scratch_floats(shape.T, shape.D)});
    return (floats + 15) / 16 * 16 * static_cast<int64_t>(sizeof(float)) * context_.num_threads();
  }
  void set_workspace(void* data, int64_t num_bytes) override {
    context_.set_workspace(static_cast<float*>(data),
                           num_bytes / static_cast<int64_t>(sizeof(float)));
  }

  void embedding_forward(Tensor out, Tensor tokens, Tensor word, Tensor position,
                         int64_t first_word, const Dropout& dropout) override {
    check_embedding_forward(out, tokens, word, position, dropout);
    cpu::embedding_forward(context_, out, tokens, word, position, first_word, dropout);
  }
  void embedding_backward(Tensor dword, Tensor dposition, Tensor dout, Tensor tokens,
                          int64_t first_word, const Dropout& dropout) override {
    check_embedding_backward(dword, dposition, dout, tokens, dropout);
    cpu::embedding_backward(context_, dword, dposition, dout, tokens, first_word, dropout);
  }

  void layernorm_forward(Tensor normed, Tensor mean, Tensor rstd, Tensor inp, Tensor weight,
                         Tensor bias, float epsilon) override {
    check_layernorm_forward(normed, mean, rstd, inp, weight, bias);
    cpu::layernorm_forward(context_, normed, {}, mean, rstd, inp, {}, weight, bias, epsilon, {});
  }
  void residual_layernorm_forward(Tensor normed, Tensor residual_out, Tensor mean, Tensor rstd,
                                  Tensor residual, Tensor branch, Tensor weight, Tensor bias,
                                  float epsilon, const Dropout& dropout) override {
    check_residual_layernorm_forward(normed, residual_out, mean, rstd, residual, branch, weight,
                                     bias, dropout);
    cpu::layernorm_forward(context_, normed, residual_out, mean, rstd, residual, branch, weight,
                           bias, epsilon, dropout);
  }
  void layernorm_backward(Tensor dresidual, Tensor dbranch, Tensor dweight, Tensor dbias,
                          Tensor dnormed, Tensor dresidual_in, Tensor inp, Tensor mean, Tensor rstd,
                          Tensor weight, const Dropout& dropout, bool accumulate) override {
    check_layernorm_backward(dresidual, dbranch, dweight, dbias, dnormed, dresidual_in, inp, mean,
                             rstd, weight, dropout);
    cpu::layernorm_backward(context_, dresidual, dbranch, dweight, dbias, dnormed, dresidual_in,
                            inp, mean, rstd, weight, dropout, accumulate);
  }

  void linear_forward(Tensor out, Tensor inp, Tensor weight, Tensor bias) override {
    check_linear_forward(out, inp, weight, bias);
    cpu::linear_forward(context_, out, {}, inp, weight, bias, Gelu::kTanh);
  }
  void linear_gelu_forward(Tensor out, Tensor pre, Tensor inp, Tensor weight, Tensor bias,
                           Gelu gelu) override {
    check_linear_gelu_forward(out, pre, inp, weight, bias);
    cpu::linear_forward(context_, out, pre, inp, weight, bias, gelu);
  }
  void linear_backward_input(Tensor dinp, Tensor dout, Tensor weight) override {
    check_linear_backward_input(dinp, dout, weight);
    cpu::linear_backward_input(context_, dinp, dout, weight, {}, Gelu::kTanh);
  }
  void linear_gelu_backward_input(Tensor dpre, Tensor dout, Tensor weight, Tensor pre,
                                  Gelu gelu) override {
    check_linear_gelu_backward_input(dpre, dout, weight, pre);
    cpu::linear_backward_input(context_, dpre, dout, weight, pre, gelu);
  }
  void linear_backward_weight(Tensor dweight, Tensor dbias, Tensor dout, Tensor inp,
                              bool accumulate) override {
    check_linear_backward_weight(dweight, dbias, dout, inp);
    cpu::linear_backward_weight(context_, dweight, dbias, dout, inp, accumulate);
  }

  void attention_forward(Tensor out, Tensor lse, Tensor qkv, float scale,
                         const Dropout& dropout) override {
    check_attention_forward(out, lse, qkv, dropout);
    cpu::attention_forward(context_, out, lse, qkv, scale, dropout);
  }
  void attention_backward(Tensor dqkv, Tensor dout, Tensor out, Tensor lse, Tensor qkv, float scale,
                          const Dropout& dropout) override {
    check_attention_backward(dqkv, dout, out, lse, qkv, dropout);
    cpu::attention_backward(context_, dqkv, dout, out, lse, qkv, scale, dropout);
  }

  void cross_entropy(Tensor losses, Tensor logits, Tensor targets, Tensor loss_mask,
                     int64_t vocabulary_size, float gradient_scale, bool gradient) override {
    check_cross_entropy(losses, logits, targets, loss_mask, vocabulary_size);
    cpu::cross_entropy(context_, losses, logits, targets, loss_mask, vocabulary_size,
                       gradient_scale, gradient);
  }
  void sum(Tensor out, Tensor inp, float scale, bool accumulate) override {
    check_sum("sum", out, inp);
    const double total = cpu::sum(context_, inp.as<float>(), inp.num_elements());
    float& result = *out.as<float>();
    result = static_cast<float>(scale * total) + (accumulate ? result : 0.0F);
  }

  void sum_of_squares(Tensor out, Tensor inp) override {
    check_sum("sum_of_squares", out, inp);
    *out.as<float>() =
        static_cast<float>(cpu::sum_of_squares(context_, inp.as<float>(), inp.num_elements()));
  }
  void clip_coefficient(Tensor clip, Tensor sum_of_squares, float max_norm) override {
    check_clip_coefficient(clip, sum_of_squares);
    const float norm = std::sqrt(*sum_of_squares.as<float>());
    const float factor = max_norm == 0.0F ? 1.0F : max_norm / (norm + 1e-6F);
    clip.as<float>()[0] = norm;
    // In this form a NaN norm gives a NaN factor, as PyTorch's clamp does.
    clip.as<float>()[1] = factor > 1.0F ? 1.0F : factor;
  }
  void adamw(const AdamW& args) override {
    check_adamw(args);
    cpu::adamw(context_, args);
  }

 private:
  Context context_;
  Device device_;
};

}  // namespace

}  // namespace cpu

std::unique_ptr<Backend> create_cpu_backend(int num_threads) {
  if (num_threads < 0) {
    throw std::invalid_argument("create_cpu_backend: " + std::to_string(num_threads) +
                                " threads; give 1 or more, or 0 for OpenMP's choice");
  }
  return std::make_unique<cpu::CpuBackend>(num_threads > 0 ? num_threads : omp_get_max_threads());
}

}  // namespace weft
