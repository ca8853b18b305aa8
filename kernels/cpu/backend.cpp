// The CPU backend: checks an operation, then runs it by the code of this folder.
#include "kernels/backend.h"

#include <cblas.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "kernels/cpu/loops/context.h"
#include "kernels/cpu/operations.h"

namespace weft {

namespace cpu {

namespace {

constexpr int64_t kAlignment = 256;

// Counts the memory of the machine; a control group or a job may grant less.
int64_t total_bytes_of_machine() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

int64_t free_bytes_of_machine() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name, unit;
  int64_t kibibytes = 0;
  while (meminfo >> name >> kibibytes) {
    if (name == "MemAvailable:") return kibibytes * 1024;
    std::getline(meminfo, unit);
  }
  return static_cast<int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

class CpuBackend final : public OperationVisitor<CpuBackend> {
 public:
  explicit CpuBackend(int num_threads) : context_(num_threads) { openblas_set_num_threads(1); }

  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string description() const override {
    const int n = context_.num_threads();
    return "CPU (" + std::to_string(n) + (n == 1 ? " thread)" : " threads)");
  }
  std::string device_id() const override { return ""; }
  int64_t total_memory_bytes() const override { return total_bytes_of_machine(); }
  int64_t free_memory_bytes() const override { return free_bytes_of_machine(); }
  bool has_fp8_products() const override { return true; }

  void* allocate(int64_t num_bytes, Memory) override {
    if (num_bytes < 0)
      throw std::invalid_argument("allocate: " + std::to_string(num_bytes) + " bytes");
    // The kernel would grant more memory than there is and kill the process when it uses it.
    if (num_bytes > total_bytes_of_machine()) throw std::bad_alloc();
    const auto size = static_cast<size_t>((num_bytes / kAlignment + 1) * kAlignment);
    std::unique_ptr<void, Free> memory(std::aligned_alloc(kAlignment, size));
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory.get(), 0, size);
    void* data = memory.get();
    allocations_.emplace(data, std::move(memory));
    return data;
  }
  void release(void* data, Memory) override {
    if (data != nullptr && allocations_.erase(data) == 0)
      throw std::invalid_argument("release: this memory was not allocated by this backend");
  }
  void copy(void* dst, const void* src, int64_t num_bytes, Stream) override {
    if (num_bytes > 0) std::memmove(dst, src, static_cast<size_t>(num_bytes));
  }

  // The work of a stream is done when the call returns.
  EventId create_event() override {
    events_.push_back(Clock::now());
    return static_cast<EventId>(events_.size()) - 1;
  }
  EventId create_timed_event() override { return create_event(); }
  void record(EventId event, Stream) override { time_of("record", event) = Clock::now(); }
  void wait(Stream, EventId event) override { time_of("wait", event); }
  void synchronize(EventId event) override { time_of("synchronize", event); }
  void synchronize() override {}
  bool has_happened(EventId event) override {
    time_of("has_happened", event);
    return true;
  }
  void* native_stream(Stream) const override { return nullptr; }
  float elapsed_ms(EventId start, EventId stop) override {
    const std::chrono::duration<float, std::milli> elapsed =
        time_of("elapsed_ms", stop) - time_of("elapsed_ms", start);
    return elapsed.count();
  }

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
  TuneResult tune(std::span<const AnyOperation>, const AlgorithmChoices&) override { return {}; }
  std::string algorithms() const override { return ""; }
  void use_algorithms(const std::string&) override {}

  template <typename Op>
  void visit(const Op& op) {
    check(op);
    cpu::run(context_, op);
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Free {
    void operator()(void* data) const { std::free(data); }
  };
  Clock::time_point& time_of(const char* operation, EventId event) {
    if (event < 0 || event >= static_cast<EventId>(events_.size())) {
      throw std::invalid_argument(std::string(operation) + ": no event " + std::to_string(event) +
                                  " was created here");
    }
    return events_[static_cast<size_t>(event)];
  }

  Context context_;
  std::unordered_map<void*, std::unique_ptr<void, Free>> allocations_;
  std::vector<Clock::time_point> events_;
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
