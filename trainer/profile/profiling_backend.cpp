#include "trainer/profile/profiling_backend.h"

#include "trainer/profile/profiled_call.h"

namespace weft {

void ProfilingBackend::copy(void* dst, const void* src, int64_t num_bytes, Stream stream) {
  const auto call = [&] { inner().copy(dst, src, num_bytes, stream); };
  if (stream != Stream::kCompute) return call();
  profiled_call(
      recorder_, stream, [&] { return copy_operation(num_bytes); }, call);
}

void ProfilingBackend::record(EventId event, Stream stream) {
  recorder_.note_record(event, stream);
  inner().record(event, stream);
}

void ProfilingBackend::wait(Stream stream, EventId event) {
  if (stream == Stream::kCompute && recorder_.takes_operations()) {
    recorder_.wait_on_compute(event);
  } else {
    inner().wait(stream, event);
  }
}

void ProfilingBackend::zero(Tensor tensor) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return zero_operation(tensor); },
      [&] { inner().zero(tensor); });
}

void ProfilingBackend::cast(Tensor dst, Tensor src) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return cast_operation(dst, src); },
      [&] { inner().cast(dst, src); });
}

void ProfilingBackend::embedding_forward(Tensor out, Tensor tokens, Tensor word,
                                         int64_t first_word) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return embedding_forward_operation(out, tokens); },
      [&] { inner().embedding_forward(out, tokens, word, first_word); });
}

void ProfilingBackend::embedding_backward(Tensor dword, Tensor dout, Tensor tokens,
                                          int64_t first_word) {
  profiled_call(
      recorder_, Stream::kCompute,
      [&] { return embedding_backward_operation(dword, dout, tokens); },
      [&] { inner().embedding_backward(dword, dout, tokens, first_word); });
}

void ProfilingBackend::residual_norm_forward(const ResidualNorm& args) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return residual_norm_forward_operation(args); },
      [&] { inner().residual_norm_forward(args); });
}

void ProfilingBackend::residual_norm_backward(const ResidualNormBackward& args) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return residual_norm_backward_operation(args); },
      [&] { inner().residual_norm_backward(args); });
}

void ProfilingBackend::linear_forward(Tensor out, Tensor inp, Tensor weight, Tensor bias) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return linear_forward_operation(out, inp, weight, bias); },
      [&] { inner().linear_forward(out, inp, weight, bias); });
}

void ProfilingBackend::linear_backward_input(Tensor dinp, Tensor dout, Tensor weight) {
  profiled_call(
      recorder_, Stream::kCompute,
      [&] { return linear_backward_input_operation(dinp, dout, weight); },
      [&] { inner().linear_backward_input(dinp, dout, weight); });
}

void ProfilingBackend::linear_gelu_forward(Tensor out, Tensor pre, Tensor inp, Tensor weight,
                                           Tensor bias, Gelu gelu) {
  profiled_call(
      recorder_, Stream::kCompute,
      [&] { return linear_gelu_forward_operation(out, pre, inp, weight, bias); },
      [&] { inner().linear_gelu_forward(out, pre, inp, weight, bias, gelu); });
}

void ProfilingBackend::linear_gelu_backward_input(Tensor dpre, Tensor dbias, Tensor dout,
                                                  Tensor weight, Tensor pre, Gelu gelu,
                                                  bool accumulate) {
  profiled_call(
      recorder_, Stream::kCompute,
      [&] {
        return linear_gelu_backward_input_operation(dpre, dbias, dout, weight, pre, accumulate);
      },
      [&] {
        inner().linear_gelu_backward_input(dpre, dbias, dout, weight, pre, gelu, accumulate);
      });
}

void ProfilingBackend::linear_backward_weight(Tensor dweight, Tensor dbias, Tensor dout, Tensor inp,
                                              bool accumulate) {
  profiled_call(
      recorder_, Stream::kCompute,
      [&] { return linear_backward_weight_operation(dweight, dbias, dout, inp, accumulate); },
      [&] { inner().linear_backward_weight(dweight, dbias, dout, inp, accumulate); });
}

void ProfilingBackend::gelu_forward(Tensor out, Tensor pre, Gelu gelu) {
  profiled_call(
      recorder_, Stream::kCompute,
      [&] { return activation_operation("gelu_forward", out, pre, {}); },
      [&] { inner().gelu_forward(out, pre, gelu); });
}

void ProfilingBackend::quantize(const Quantize& args) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return quantize_operation(args); },
      [&] { inner().quantize(args); });
}

void ProfilingBackend::transpose_fp8(Tensor transposed, Tensor rows) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return transpose_fp8_operation(transposed, rows); },
      [&] { inner().transpose_fp8(transposed, rows); });
}

void ProfilingBackend::fp8_product(const Fp8Product& args) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return fp8_product_operation(args); },
      [&] { inner().fp8_product(args); });
}

void ProfilingBackend::update_fp8_scaling(const Fp8ScalingUpdate& args) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return update_fp8_scaling_operation(args); },
      [&] { inner().update_fp8_scaling(args); });
}

void ProfilingBackend::squared_error(Tensor out, Tensor value, Tensor reference, bool accumulate) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return squared_error_operation(value, reference); },
      [&] { inner().squared_error(out, value, reference, accumulate); });
}

void ProfilingBackend::glu_forward(Tensor out, Tensor pre, Glu glu) {
  profiled_call(
      recorder_, Stream::kCompute,
      [&] { return activation_operation("glu_forward", out, pre, {}); },
      [&] { inner().glu_forward(out, pre, glu); });
}

void ProfilingBackend::glu_backward(Tensor dpre, Tensor dout, Tensor pre, Glu glu) {
  profiled_call(
      recorder_, Stream::kCompute,
      [&] { return activation_operation("glu_backward", dout, dpre, pre); },
      [&] { inner().glu_backward(dpre, dout, pre, glu); });
}

void ProfilingBackend::rotate(const Rotary& args) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return rotate_operation(args); },
      [&] { inner().rotate(args); });
}

void ProfilingBackend::expand_groups(Tensor expanded, Tensor grouped) {
  profiled_call(
      recorder_, Stream::kCompute,
      [&] { return groups_operation("expand_groups", grouped, expanded); },
      [&] { inner().expand_groups(expanded, grouped); });
}

void ProfilingBackend::sum_groups(Tensor grouped, Tensor expanded) {
  profiled_call(
      recorder_, Stream::kCompute,
      [&] { return groups_operation("sum_groups", grouped, expanded); },
      [&] { inner().sum_groups(grouped, expanded); });
}

void ProfilingBackend::attention_forward(const Attention& args) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return attention_forward_operation(args); },
      [&] { inner().attention_forward(args); });
}

void ProfilingBackend::attention_backward(const AttentionBackward& args) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return attention_backward_operation(args); },
      [&] { inner().attention_backward(args); });
}

void ProfilingBackend::cross_entropy(Tensor losses, Tensor logits, Tensor targets, Tensor loss_mask,
                                     int64_t vocabulary_size, float gradient_scale, bool gradient) {
  profiled_call(
      recorder_, Stream::kCompute,
      [&] { return cross_entropy_operation("cross_entropy", logits, {}, gradient); },
      [&] {
        inner().cross_entropy(losses, logits, targets, loss_mask, vocabulary_size, gradient_scale,
                              gradient);
      });
}

void ProfilingBackend::cross_entropy_statistics(Tensor statistics, Tensor logits, Tensor targets,
                                                int64_t first_word, int64_t vocabulary_size) {
  profiled_call(
      recorder_, Stream::kCompute,
      [&] {
        return cross_entropy_operation("cross_entropy_statistics", logits, statistics, false);
      },
      [&] {
        inner().cross_entropy_statistics(statistics, logits, targets, first_word, vocabulary_size);
      });
}

void ProfilingBackend::cross_entropy_gradient(Tensor losses, Tensor logits, Tensor statistics,
                                              Tensor targets, Tensor loss_mask, int64_t first_word,
                                              int64_t vocabulary_size, float gradient_scale,
                                              bool gradient) {
  profiled_call(
      recorder_, Stream::kCompute,
      [&] {
        return cross_entropy_operation("cross_entropy_gradient", logits, statistics, gradient);
      },
      [&] {
        inner().cross_entropy_gradient(losses, logits, statistics, targets, loss_mask, first_word,
                                       vocabulary_size, gradient_scale, gradient);
      });
}

void ProfilingBackend::sample_losses(Tensor out, Tensor losses, Tensor loss_mask) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return sum_operation("sample_losses", losses); },
      [&] { inner().sample_losses(out, losses, loss_mask); });
}

void ProfilingBackend::sum(Tensor out, Tensor inp, float scale, bool accumulate) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return sum_operation("sum", inp); },
      [&] { inner().sum(out, inp, scale, accumulate); });
}

void ProfilingBackend::sum_of_squares(Tensor out, Tensor inp) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return sum_operation("sum_of_squares", inp); },
      [&] { inner().sum_of_squares(out, inp); });
}

void ProfilingBackend::clip_coefficient(Tensor clip, Tensor sum_of_squares, float max_norm) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return clip_coefficient_operation(); },
      [&] { inner().clip_coefficient(clip, sum_of_squares, max_norm); });
}

void ProfilingBackend::adamw(const AdamW& args) {
  profiled_call(
      recorder_, Stream::kCompute, [&] { return adamw_operation(args); },
      [&] { inner().adamw(args); });
}

void ProfilingBackend::split_masters(Tensor param, Tensor remainder, Tensor master) {
  profiled_call(
      recorder_, Stream::kCompute,
      [&] { return masters_operation("split_masters", param, remainder, master); },
      [&] { inner().split_masters(param, remainder, master); });
}

void ProfilingBackend::join_masters(Tensor master, Tensor param, Tensor remainder) {
  profiled_call(
      recorder_, Stream::kCompute,
      [&] { return masters_operation("join_masters", param, remainder, master); },
      [&] { inner().join_masters(master, param, remainder); });
}

}  // namespace weft
