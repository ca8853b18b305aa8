// A backend that passes every call on to another one. Classes that measure, count or break
// operations derive from it and override those alone.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "kernels/backend.h"

namespace weft {

class ForwardingBackend : public OperationVisitor<ForwardingBackend> {
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
  EventId create_event() override { return inner_->create_event(); }
  EventId create_timed_event() override { return inner_->create_timed_event(); }
  void record(EventId event, Stream stream) override { inner_->record(event, stream); }
  void wait(Stream stream, EventId event) override { inner_->wait(stream, event); }
  bool has_happened(EventId event) override { return inner_->has_happened(event); }
  std::function<void()> repeatable(const std::function<void()>& enqueue) override {
    return inner_->repeatable(enqueue);
  }
  void* native_stream(Stream stream) const override { return inner_->native_stream(stream); }
  float elapsed_ms(EventId a, EventId b) override { return inner_->elapsed_ms(a, b); }
  int64_t workspace_bytes(std::span<const AnyOperation> operations) const override {
    return inner_->workspace_bytes(operations);
  }
  void set_workspace(void* data, int64_t n) override { inner_->set_workspace(data, n); }
  TuneResult tune(std::span<const AnyOperation> operations,
                  const AlgorithmChoices& known) override {
    return inner_->tune(operations, known);
  }
  std::string algorithms() const override { return inner_->algorithms(); }
  void use_algorithms(const std::string& text) override { inner_->use_algorithms(text); }
  template <typename Op>
  void visit(const Op& op) {
    inner_->run(op);
  }

 protected:
  Backend& inner() { return *inner_; }

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace weft
