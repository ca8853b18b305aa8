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
  // Returns zeroed memory, 256-byte aligned. The device frees what is left when it is destroyed.
  // Throws std::bad_alloc.
  void* allocate(int64_t num_bytes);
  // Throws std::invalid_argument for memory that was not allocated here. Null is ignored.
  void release(void* data);

  int create_event();
  void record(int event);
  void check_event(const char* operation, int event) const;
  float elapsed_ms(int start, int stop) const;

  // These count the memory of the machine; a control group or a job may grant less.
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
