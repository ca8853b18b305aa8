#include "kernels/cpu/device.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <stdexcept>
#include <string>

namespace weft::cpu {

namespace {
constexpr int64_t kAlignment = 256;
}

void Device::Free::operator()(void* data) const { std::free(data); }

void* Device::allocate(int64_t num_bytes) {
  if (num_bytes < 0) {
    throw std::invalid_argument("allocate: " + std::to_string(num_bytes) + " bytes");
  }
  // The kernel would grant more memory than there is and kill the process when it uses it.
  if (num_bytes > total_memory_bytes()) throw std::bad_alloc();
  const auto size = static_cast<size_t>((num_bytes / kAlignment + 1) * kAlignment);
  std::unique_ptr<void, Free> memory(std::aligned_alloc(kAlignment, size));
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory.get(), 0, size);
  void* data = memory.get();
  allocations_.emplace(data, std::move(memory));
  return data;
}

void Device::release(void* data) {
  if (data == nullptr) return;
  if (allocations_.erase(data) == 0) {
    throw std::invalid_argument("release: this memory was not allocated by this backend");
  }
}

int Device::create_event() {
  events_.push_back(std::chrono::steady_clock::now());
  return static_cast<int>(events_.size()) - 1;
}

void Device::record(int event) {
  check_event("record", event);
  events_[static_cast<size_t>(event)] = std::chrono::steady_clock::now();
}

void Device::check_event(const char* operation, int event) const {
  if (event < 0 || event >= static_cast<int>(events_.size())) {
    throw std::invalid_argument(std::string(operation) + ": no event " + std::to_string(event) +
                                " was created here");
  }
}

float Device::elapsed_ms(int start, int stop) const {
  check_event("elapsed_ms", start);
  check_event("elapsed_ms", stop);
  const std::chrono::duration<float, std::milli> elapsed =
      events_[static_cast<size_t>(stop)] - events_[static_cast<size_t>(start)];
  return elapsed.count();
}

int64_t Device::total_memory_bytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

int64_t Device::free_memory_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name, unit;
  int64_t kibibytes = 0;
  while (meminfo >> name >> kibibytes) {
    if (name == "MemAvailable:") return kibibytes * 1024;
    std::getline(meminfo, unit);
  }
  return static_cast<int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

}  // namespace weft::cpu
