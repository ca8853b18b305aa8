// The CPU backend: checks arguments, then calls the operation of the same name in this folder.
#include "kernels/backend.h"

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "kernels/checks/check_shapes.h"
#include "kernels/cpu/device.h"
#include "kernels/cpu/loops/context.h"
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
  std::string device_id() const override { return ""; }
  int64_t total_memory_bytes() const override { return Device::total_memory_bytes(); }
  int64_t free_memory_bytes() const override { return Device::free_memory_bytes(); }
  bool has_fp8_products() const override { return true; }
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
  EventId create_timed_event() override { return device_.create_event(); }
  void record(EventId event, Stream) override { device_.record(event); }
  void wait(Stream, EventId event) override { device_.check_event("wait", event); }
  void synchronize(EventId event) override { device_.check_event("synchronize", event); }
  void synchronize() override {}
  bool has_happened(EventId event) override {
    device_.check_event("has_happened", event);
    return true;
  }
  void* native_stream(Stream) const override { return nullptr; }
  float elapsed_ms(EventId start, EventId stop) override { return device_.elapsed_ms(start, stop); }

  int64_t workspace_bytes(const WorkspaceShape& shape) const override {
    const int64_t floats =
        std::max({linear_scratch_floats(), embedding_scratch_floats(shape.C),
                  residual_norm_scratch_floats(shape.C), cross_entropy_scratch_floats(shape.Vp),
                  qkv_scratch_floats(shape.D), attention_scratch_floats(shape.T, shape.D)});
    return (floats + 15) / 16 * 16 * static_cast<int64_t>(sizeof(float)) * context_.num_threads();
  }
  void set_workspace(void* data, int64_t num_bytes) override {
    context_.set_workspace(static_cast<float*>(data),
                           num_bytes / static_cast<int64_t>(sizeof(float)));
  }

  // The CPU has one way to compute a product.
  std::string tune(const WorkspaceShape&) override { return ""; }
  std::string algorithms() const override { return ""; }
  void use_algorithms(const std::string&) override {}

  void embedding_forward(Tensor out, Tensor tokens, Tensor word, int64_t first_word) override {
    check_embedding_forward(out, tokens, word);
    cpu::embedding_forward(context_, out, tokens, word, first_word);
  }
  void embedding_backward(Tensor dword, Tensor dout, Tensor tokens, int64_t first_word) override {
    check_embedding_backward(dword, dout, tokens);
    cpu::embedding_backward(context_, dword, dout, tokens, first_word);
  }

  void residual_norm_forward(const ResidualNorm& args) override {
    check_residual_norm_forward(args);
    cpu::residual_norm_forward(context_, args);
  }
  void residual_norm_backward(const ResidualNormBackward& args) override {
    check_residual_norm_backward(args);
    cpu::residual_norm_backward(context_, args);
  }

  void linear_forward(Tensor out, Tensor inp, Tensor weight, Tensor bias) override {
    check_linear_forward(out, inp, weight, bias);
    cpu::linear_forward(context_, out, inp, weight, bias);
  }
  void linear_backward_input(Tensor dinp, Tensor dout, Tensor weight) override {
    check_linear_backward_input(dinp, dout, weight);
    cpu::linear_backward_input(context_, dinp, dout, weight, {}, Gelu::kTanh);
  }
  void linear_gelu_forward(Tensor out, Tensor pre, Tensor inp, Tensor weight, Tensor bias,
                           Gelu gelu) override {
    check_linear_gelu_forward(out, pre, inp, weight, bias);
    cpu::linear_forward(context_, pre, inp, weight, bias);
    cpu::gelu_forward(context_, out, pre, gelu);
  }
  void linear_gelu_backward_input(Tensor dpre, Tensor dbias, Tensor dout, Tensor weight, Tensor pre,
                                  Gelu gelu, bool accumulate) override {
    check_linear_gelu_backward_input(dpre, dbias, dout, weight, pre);
    cpu::linear_backward_input(context_, dpre, dout, weight, pre, gelu);
    if (dbias) cpu::column_sums(context_, dbias, dpre, accumulate);
  }
  void linear_backward_weight(Tensor dweight, Tensor dbias, Tensor dout, Tensor inp,
                              bool accumulate) override {
    check_linear_backward_weight(dweight, dbias, dout, inp);
    cpu::linear_backward_weight(context_, dweight, dbias, dout, inp, accumulate);
  }

  void quantize(const Quantize& args) override {
    check_quantize(args);
    cpu::quantize(context_, args);
  }
  void transpose_fp8(Tensor transposed, Tensor rows) override {
    check_transpose_fp8(transposed, rows);
    cpu::transpose_fp8(context_, transposed, rows);
  }
  void fp8_product(const Fp8Product& args) override {
    check_fp8_product(args);
    cpu::fp8_product(context_, args);
  }
  void update_fp8_scaling(const Fp8ScalingUpdate& args) override {
    check_update_fp8_scaling(args);
    cpu::update_fp8_scaling(args);
  }
  void squared_error(Tensor out, Tensor value, Tensor reference, bool accumulate) override {
    check_squared_error(out, value, reference);
    cpu::squared_error(context_, out, value, reference, accumulate);
  }

  void gelu_forward(Tensor out, Tensor pre, Gelu gelu) override {
    check_gelu_forward(out, pre);
    cpu::gelu_forward(context_, out, pre, gelu);
  }
  void glu_forward(Tensor out, Tensor pre, Glu glu) override {
    check_glu_forward(out, pre);
    cpu::glu_forward(context_, out, pre, glu);
  }
  void glu_backward(Tensor dpre, Tensor dout, Tensor pre, Glu glu) override {
    check_glu_backward(dpre, dout, pre);
    cpu::glu_backward(context_, dpre, dout, pre, glu);
  }

  void rotate(const Rotary& args) override {
    check_rotate(args);
    cpu::rotate(context_, args);
  }
  void expand_groups(Tensor expanded, Tensor grouped) override {
    check_groups("expand_groups", expanded, grouped);
    cpu::expand_groups(context_, expanded, grouped);
  }
  void sum_groups(Tensor grouped, Tensor expanded) override {
    check_groups("sum_groups", expanded, grouped);
    cpu::sum_groups(context_, grouped, expanded);
  }
  void attention_forward(const Attention& args) override {
    check_attention_forward(args);
    cpu::attention_forward(context_, args);
  }
  void attention_backward(const AttentionBackward& args) override {
    check_attention_backward(args);
    cpu::attention_backward(context_, args);
  }

  void cross_entropy(Tensor losses, Tensor logits, Tensor targets, Tensor loss_mask,
                     int64_t vocabulary_size, float gradient_scale, bool gradient) override {
    check_cross_entropy(losses, logits, targets, loss_mask, vocabulary_size);
    cpu::cross_entropy(context_, losses, logits, targets, loss_mask, vocabulary_size,
                       gradient_scale, gradient);
  }
  void cross_entropy_statistics(Tensor statistics, Tensor logits, Tensor targets,
                                int64_t first_word, int64_t vocabulary_size) override {
    check_cross_entropy_statistics(statistics, logits, targets, first_word, vocabulary_size);
    cpu::cross_entropy_statistics(context_, statistics, logits, targets, first_word,
                                  vocabulary_size);
  }
  void cross_entropy_gradient(Tensor losses, Tensor logits, Tensor statistics, Tensor targets,
                              Tensor loss_mask, int64_t first_word, int64_t vocabulary_size,
                              float gradient_scale, bool gradient) override {
    check_cross_entropy_gradient(losses, logits, statistics, targets, loss_mask, first_word,
                                 vocabulary_size);
    cpu::cross_entropy_gradient(context_, losses, logits, statistics, targets, loss_mask,
                                first_word, vocabulary_size, gradient_scale, gradient);
  }
  void sample_losses(Tensor out, Tensor losses, Tensor loss_mask) override {
    check_sample_losses(out, losses, loss_mask);
    cpu::sample_losses(context_, out, losses, loss_mask);
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
  void split_masters(Tensor param, Tensor remainder, Tensor master) override {
    check_masters("split_masters", param, remainder, master);
    cpu::split_masters(context_, param, remainder, master);
  }
  void join_masters(Tensor master, Tensor param, Tensor remainder) override {
    check_masters("join_masters", param, remainder, master);
    cpu::join_masters(context_, master, param, remainder);
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
