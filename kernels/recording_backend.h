// A backend without a device: it checks operations and keeps them, in order and with their shapes,
// and executes none. So the operations of a step are found in microseconds and without memory.
//
// Device memory that it allocates is a range of addresses that nothing may touch, and pinned host
// memory reads as zeros, without a page of its own. Copies move nothing, and events have always
// happened.
#pragma once

#include <string>
#include <vector>

#include "kernels/backend.h"

namespace weft {

class RecordingBackend final : public OperationVisitor<RecordingBackend> {
 public:
  RecordingBackend() = default;
  RecordingBackend(const RecordingBackend&) = delete;
  RecordingBackend& operator=(const RecordingBackend&) = delete;
  ~RecordingBackend() override;

  const std::vector<AnyOperation>& operations() const { return operations_; }
  void clear() { operations_.clear(); }

  template <typename Op>
  void visit(const Op& op) {
    check(op);
    operations_.emplace_back(op);
  }

  DeviceKind kind() const override { return DeviceKind::kCpu; }
  std::string description() const override { return "no device"; }
  std::string device_id() const override { return ""; }
  int64_t total_memory_bytes() const override { return 0; }
  int64_t free_memory_bytes() const override { return 0; }
  bool has_fp8_products() const override { return true; }
  void* allocate(int64_t num_bytes, Memory memory) override;
  void release(void*, Memory) override {}
  void copy(void*, const void*, int64_t, Stream) override {}
  EventId create_event() override { return num_events_++; }
  EventId create_timed_event() override { return num_events_++; }
  void record(EventId, Stream) override {}
  void wait(Stream, EventId) override {}
  void synchronize(EventId) override {}
  void synchronize() override {}
  bool has_happened(EventId) override { return true; }
  float elapsed_ms(EventId, EventId) override { return 0; }
  void* native_stream(Stream) const override { return nullptr; }
  int64_t workspace_bytes(std::span<const AnyOperation>) const override { return 0; }
  void set_workspace(void*, int64_t) override {}
  TuneResult tune(std::span<const AnyOperation>, const AlgorithmChoices&) override { return {}; }
  std::string algorithms() const override { return ""; }
  void use_algorithms(const std::string&) override {}

 private:
  struct Mapping {
    void* data;
    size_t num_bytes;
  };
  std::vector<AnyOperation> operations_;
  std::vector<Mapping> host_memory_;
  // Addresses of a user's memory end far below on x86-64 and Arm, so what touches one faults.
  uintptr_t next_address_ = uintptr_t{1} << 62;
  EventId num_events_ = 0;
};

}  // namespace weft
