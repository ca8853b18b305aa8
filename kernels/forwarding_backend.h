// A backend that passes every call on to another one. Classes that measure, count or break operations
// derive from it and override those alone.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "kernels/backend.h"

namespace weft {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  void* allocate(int64_t num_bytes, Memory memory) override {
    return inner_->allocate(num_bytes, memory);
  }
  void synchronize(EventId event) override { inner_->synchronize(event); }
  void synchronize() override { inner_->synchronize(); }
  DeviceKind kind() const override { return inner_->kind(); }
  std::string description() const override { return inner_->description(); }
  std::string device_id() const override { return inner_->device_id(); }
  int64_t total_memory_bytes() const override { return inner_->total_memory_bytes(); }
  int64_t free_memory_bytes() const override { return inner_->free_memory_bytes(); }
  bool has_fp8_products() const override { return inner_->has_fp8_products(); }
  void release(void* data, Memory memory) override { inner_->release(data, memory); }
  void copy(void* dst, const void* src, int64_t num_bytes, Stream stream) override {
    inner_->copy(dst, src, num_bytes, stream);
  }
  void zero(Tensor t) override { inner_->zero(t); }
  void cast(Tensor dst, Tensor src) override { inner_->cast(dst, src); }
  EventId create_event() override { return inner_->create_event(); }
  EventId create_timed_event() override { return inner_->create_timed_event(); }
  void record(EventId event, Stream stream) override { inner_->record(event, stream); }
  void wait(Stream stream, EventId event) override { inner_->wait(stream, event); }
  bool has_happened(EventId event) override { return inner_->has_happened(event); }
  void* native_stream(Stream stream) const override { return inner_->native_stream(stream); }
  float elapsed_ms(EventId a, EventId b) override { return inner_->elapsed_ms(a, b); }
  int64_t workspace_bytes(const WorkspaceShape& s) const override {
    return inner_->workspace_bytes(s);
  }
  void set_workspace(void* data, int64_t n) override { inner_->set_workspace(data, n); }
  std::string tune(const WorkspaceShape& s) override { return inner_->tune(s); }
  std::string algorithms() const override { return inner_->algorithms(); }
  void use_algorithms(const std::string& text) override { inner_->use_algorithms(text); }
  void embedding_forward(Tensor out, Tensor tokens, Tensor word, int64_t first) override {
    inner_->embedding_forward(out, tokens, word, first);
  }
  void embedding_backward(Tensor dword, Tensor dout, Tensor tokens, int64_t first) override {
    inner_->embedding_backward(dword, dout, tokens, first);
  }
  void residual_norm_forward(const ResidualNorm& args) override {
    inner_->residual_norm_forward(args);
  }
  void residual_norm_backward(const ResidualNormBackward& args) override {
    inner_->residual_norm_backward(args);
  }
  void linear_forward(Tensor out, Tensor inp, Tensor weight, Tensor bias) override {
    inner_->linear_forward(out, inp, weight, bias);
  }
  void linear_backward_input(Tensor dinp, Tensor dout, Tensor weight) override {
    inner_->linear_backward_input(dinp, dout, weight);
  }
  void linear_gelu_forward(Tensor out, Tensor pre, Tensor inp, Tensor weight, Tensor bias,
                           Gelu gelu) override {
    inner_->linear_gelu_forward(out, pre, inp, weight, bias, gelu);
  }
  void linear_gelu_backward_input(Tensor dpre, Tensor dbias, Tensor dout, Tensor weight, Tensor pre,
                                  Gelu gelu, bool accumulate) override {
    inner_->linear_gelu_backward_input(dpre, dbias, dout, weight, pre, gelu, accumulate);
  }
  void linear_backward_weight(Tensor dweight, Tensor dbias, Tensor dout, Tensor inp,
                              bool accumulate) override {
    inner_->linear_backward_weight(dweight, dbias, dout, inp, accumulate);
  }
  void quantize(const Quantize& args) override { inner_->quantize(args); }
  void transpose_fp8(Tensor transposed, Tensor rows) override {
    inner_->transpose_fp8(transposed, rows);
  }
  void fp8_product(const Fp8Product& args) override { inner_->fp8_product(args); }
  void update_fp8_scaling(const Fp8ScalingUpdate& args) override {
    inner_->update_fp8_scaling(args);
  }
  void squared_error(Tensor out, Tensor value, Tensor reference, bool accumulate) override {
    inner_->squared_error(out, value, reference, accumulate);
  }
  void gelu_forward(Tensor out, Tensor pre, Gelu gelu) override {
    inner_->gelu_forward(out, pre, gelu);
  }
  void glu_forward(Tensor out, Tensor pre, Glu glu) override { inner_->glu_forward(out, pre, glu); }
  void glu_backward(Tensor dpre, Tensor dout, Tensor pre, Glu glu) override {
    inner_->glu_backward(dpre, dout, pre, glu);
  }
  void rotate(const Rotary& args) override { inner_->rotate(args); }
  void expand_groups(Tensor expanded, Tensor grouped) override {
    inner_->expand_groups(expanded, grouped);
  }
  void sum_groups(Tensor grouped, Tensor expanded) override {
    inner_->sum_groups(grouped, expanded);
  }
  void attention_forward(const Attention& args) override { inner_->attention_forward(args); }
  void attention_backward(const AttentionBackward& args) override {
    inner_->attention_backward(args);
  }
  void cross_entropy(Tensor losses, Tensor logits, Tensor targets, Tensor mask, int64_t vocabulary,
                     float gradient_scale, bool gradient) override {
    inner_->cross_entropy(losses, logits, targets, mask, vocabulary, gradient_scale, gradient);
  }
  void cross_entropy_statistics(Tensor statistics, Tensor logits, Tensor targets, int64_t first,
                                int64_t vocabulary) override {
    inner_->cross_entropy_statistics(statistics, logits, targets, first, vocabulary);
  }
  void cross_entropy_gradient(Tensor losses, Tensor logits, Tensor statistics, Tensor targets,
                              Tensor mask, int64_t first, int64_t vocabulary, float gradient_scale,
                              bool gradient) override {
    inner_->cross_entropy_gradient(losses, logits, statistics, targets, mask, first, vocabulary,
                                   gradient_scale, gradient);
  }
  void sample_losses(Tensor out, Tensor losses, Tensor mask) override {
    inner_->sample_losses(out, losses, mask);
  }
  void sum(Tensor out, Tensor inp, float scale, bool accumulate) override {
    inner_->sum(out, inp, scale, accumulate);
  }
  void sum_of_squares(Tensor out, Tensor inp) override { inner_->sum_of_squares(out, inp); }
  void clip_coefficient(Tensor clip, Tensor squares, float max_norm) override {
    inner_->clip_coefficient(clip, squares, max_norm);
  }
  void adamw(const AdamW& args) override { inner_->adamw(args); }
  void split_masters(Tensor param, Tensor remainder, Tensor master) override {
    inner_->split_masters(param, remainder, master);
  }
  void join_masters(Tensor master, Tensor param, Tensor remainder) override {
    inner_->join_masters(master, param, remainder);
  }

 protected:
  Backend& inner() { return *inner_; }

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace weft
