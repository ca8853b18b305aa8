// Memory that is not needed any more, or not now, goes back to the system.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string_view>

namespace weft {

// The whole pages of `text`. Of a mapped file they are read again when they are touched; of other
// memory they read as zeros.
inline void give_pages_back(std::string_view text) {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(text.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(text.data() + text.size()) / page * page;
  if (begin < end) (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace weft
