// The machine as a device: its memory, and streams whose work is done when the call returns.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace weft::cpu {

class Device {
 public:
  // Zeroed, 256-byte aligned, freed with the device at the latest. Throws std::bad_alloc.
  void* allocate(int64_t num_bytes);
  // Throws std::invalid_argument for what was not allocated here. Null is nothing.
  void release(void* data);

  int create_event();
  void record(int event);
  void check_event(const char* operation, int event) const;
  float elapsed_ms(int start, int stop) const;

  // Memory of the machine; what a control group or a job grants may be less.
  static int64_t total_memory_bytes();
  static int64_t free_memory_bytes();

 private:
  struct Free {
    void operator()(void* data) const;
  };
  std::unordered_map<void*, std::unique_ptr<void, Free>> allocations_;
  std::vector<std::chrono::steady_clock::time_point> events_;
};

}  // namespace weft::cpu
