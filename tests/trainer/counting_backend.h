// A backend that counts allocations and waits.
#pragma once

#include <memory>
#include <utility>

#include "kernels/forwarding_backend.h"

namespace weft {

class CountingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  int num_allocations = 0, num_waits = 0;
  int64_t device_bytes = 0, pinned_bytes = 0;

  void* allocate(int64_t num_bytes, Memory memory) override {
    ++num_allocations;
    (memory == Memory::kDevice ? device_bytes : pinned_bytes) += num_bytes;
    return ForwardingBackend::allocate(num_bytes, memory);
  }
  void synchronize(EventId event) override {
    ++num_waits;
    ForwardingBackend::synchronize(event);
  }
  void synchronize() override {
    ++num_waits;
    ForwardingBackend::synchronize();
  }
};

}  // namespace weft
