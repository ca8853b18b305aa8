// A backend that counts allocations and waits and passes every call on to another backend.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "kernels/backend.h"

namespace weft {

class CountingBackend final : public Backend {
 public:
  explicit CountingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  int num_allocations = 0, num_waits = 0;
  int64_t device_bytes = 0, pinned_bytes = 0;

  void* allocate(int64_t num_bytes, Memory memory) override {
    ++num_allocations;
    (memory == Memory::kDevice ? device_bytes : pinned_bytes) += num_bytes;
    return inner_->allocate(num_bytes, memory);
  }
  void synchronize(EventId event) override {
    ++num_waits;
    inner_->synchronize(event);
  }
  void synchronize() override {
    ++num_waits;
    inner_->synchronize();
  }

  DeviceKind kind() const override { return inner_->kind(); }
  std::string description() const override { return inner_->description(); }
  int64_t total_memory_bytes() const override { return inner_->total_memory_bytes(); }
  int64_t free_memory_bytes() const override { return inner_->free_memory_bytes(); }
  void release(void* data, Memory memory) override { inner_->release(data, memory); }
  void copy(void* dst, const void* src, int64_t num_bytes, Stream stream) override {
    inner_->copy(dst, src, num_bytes, stream);
  }
  void zero(Tensor t) override { inner_->zero(t); }
  void cast(Tensor dst, Tensor src) override { inner_->cast(dst, src); }
  EventId create_event() override { return inner_->create_event(); }
  void record(EventId event, Stream stream) override { inner_->record(event, stream); }
  void wait(Stream stream, EventId event) override { inner_->wait(stream, event); }
  float elapsed_ms(EventId a, EventId b) override { return inner_->elapsed_ms(a, b); }
  int64_t workspace_bytes(const WorkspaceShape& s) const override {
    return inner_->workspace_bytes(s);
  }
  void set_workspace(void* data, int64_t n) override { inner_->set_workspace(data, n); }
  void embedding_forward(Tensor out, Tensor tokens, Tensor word, Tensor position, int64_t first,
                         const Dropout& d) override {
    inner_->embedding_forward(out, tokens, word, position, first, d);
  }
  void embedding_backward(Tensor dword, Tensor dposition, Tensor dout, Tensor tokens, int64_t first,
                          const Dropout& d) override {
    inner_->embedding_backward(dword, dposition, dout, tokens, first, d);
  }
  void layernorm_forward(Tensor normed, Tensor mean, Tensor rstd, Tensor inp, Tensor weight,
                         Tensor bias, float epsilon) override {
    inner_->layernorm_forward(normed, mean, rstd, inp, weight, bias, epsilon);
  }
  void residual_layernorm_forward(Tensor normed, Tensor residual_out, Tensor mean, Tensor rstd,
                                  Tensor residual, Tensor branch, Tensor weight, Tensor bias,
                                  float epsilon, const Dropout& d) override {
    inner_->residual_layernorm_forward(normed, residual_out, mean, rstd, residual, branch, weight,
                                       bias, epsilon, d);
  }
  void layernorm_backward(Tensor dresidual, Tensor dbranch, Tensor dweight, Tensor dbias,
                          Tensor dnormed, Tensor dresidual_in, Tensor inp, Tensor mean, Tensor rstd,
                          Tensor weight, const Dropout& d, bool accumulate) override {
    inner_->layernorm_backward(dresidual, dbranch, dweight, dbias, dnormed, dresidual_in, inp, mean,
                               rstd, weight, d, accumulate);
  }
  void linear_forward(Tensor out, Tensor inp, Tensor weight, Tensor bias) override {
    inner_->linear_forward(out, inp, weight, bias);
  }
  void linear_gelu_forward(Tensor out, Tensor pre, Tensor inp, Tensor weight, Tensor bias,
                           Gelu gelu) override {
    inner_->linear_gelu_forward(out, pre, inp, weight, bias, gelu);
  }
  void linear_backward_input(Tensor dinp, Tensor dout, Tensor weight) override {
    inner_->linear_backward_input(dinp, dout, weight);
  }
  void linear_gelu_backward_input(Tensor dpre, Tensor dout, Tensor weight, Tensor pre,
                                  Gelu gelu) override {
    inner_->linear_gelu_backward_input(dpre, dout, weight, pre, gelu);
  }
  void linear_backward_weight(Tensor dweight, Tensor dbias, Tensor dout, Tensor inp,
                              bool accumulate) override {
    inner_->linear_backward_weight(dweight, dbias, dout, inp, accumulate);
  }
  void attention_forward(Tensor out, Tensor lse, Tensor qkv, float scale,
                         const Dropout& d) override {
    inner_->attention_forward(out, lse, qkv, scale, d);
  }
  void attention_backward(Tensor dqkv, Tensor dout, Tensor out, Tensor lse, Tensor qkv, float scale,
                          const Dropout& d) override {
    inner_->attention_backward(dqkv, dout, out, lse, qkv, scale, d);
  }
  void cross_entropy(Tensor losses, Tensor logits, Tensor targets, Tensor mask, int64_t vocabulary,
                     float gradient_scale, bool gradient) override {
    inner_->cross_entropy(losses, logits, targets, mask, vocabulary, gradient_scale, gradient);
  }
  void sum(Tensor out, Tensor inp, float scale, bool accumulate) override {
    inner_->sum(out, inp, scale, accumulate);
  }
  void sum_of_squares(Tensor out, Tensor inp) override { inner_->sum_of_squares(out, inp); }
  void clip_coefficient(Tensor clip, Tensor squares, float max_norm) override {
    inner_->clip_coefficient(clip, squares, max_norm);
  }
  void adamw(const AdamW& args) override { inner_->adamw(args); }

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace weft
