// The CPU backend: checks an operation, then runs it by the code of this folder.
#include "kernels/backend.h"

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "kernels/cpu/device.h"
#include "kernels/cpu/loops/context.h"
#include "kernels/cpu/operations.h"

namespace weft {

namespace cpu {

namespace {

class CpuBackend final : public OperationVisitor<CpuBackend> {
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

  int64_t workspace_bytes(std::span<const AnyOperation> operations) const override {
    int64_t floats = 0;
    for (const AnyOperation& operation : operations) {
      std::visit([&](const auto& op) { floats = std::max(floats, scratch_floats(op)); }, operation);
    }
    return (floats + 15) / 16 * 16 * static_cast<int64_t>(sizeof(float)) * context_.num_threads();
  }
  void set_workspace(void* data, int64_t num_bytes) override {
    context_.set_workspace(static_cast<float*>(data),
                           num_bytes / static_cast<int64_t>(sizeof(float)));
  }

  // The CPU has one way to compute a product.
  std::string tune(std::span<const AnyOperation>) override { return ""; }
  std::string algorithms() const override { return ""; }
  void use_algorithms(const std::string&) override {}

  template <typename Op>
  void visit(const Op& op) {
    check(op);
    cpu::run(context_, op);
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
