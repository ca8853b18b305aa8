#include "kernels/recording_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace weft {

RecordingBackend::~RecordingBackend() {
  for (const Mapping& mapping : host_memory_) munmap(mapping.data, mapping.num_bytes);
}

void* RecordingBackend::allocate(int64_t num_bytes, Memory memory) {
  const auto size = static_cast<size_t>(std::max<int64_t>(num_bytes, 1));
  if (memory == Memory::kPinnedHost) {
    void* const data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::bad_alloc();
    host_memory_.push_back({data, size});
    return data;
  }
  constexpr uintptr_t kAlignment = 256;
  void* const data = reinterpret_cast<void*>(next_address_);
  next_address_ += (size / kAlignment + 1) * kAlignment;
  return data;
}

}  // namespace weft
