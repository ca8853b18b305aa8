// Memory of gigabytes that is touched at random places: with pages of 2 MiB instead of 4 KiB the
// processor seldom waits for the address of a page.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft {

// The bytes of the huge pages that lie whole in memory [begin, end).
inline std::span<std::byte> huge_pages_in(void* begin, void* end) {
  constexpr uintptr_t kPageBytes = 2 << 20;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + kPageBytes - 1) & -kPageBytes;
  const uintptr_t last = reinterpret_cast<uintptr_t>(end) & -kPageBytes;
  if (last <= first) return {};
  return {reinterpret_cast<std::byte*>(first), last - first};
}

// Advises the kernel to use huge pages for this memory, before it is touched. Without huge pages
// everything works, but slower. Each advice splits a mapping of the process, which may have 65,530
// of them, so the arrays of small datasets go without.
template <typename T>
void ask_for_huge_pages(T* data, size_t size) {
  constexpr size_t kWorthIt = 64 << 20;
  const auto pages = huge_pages_in(data, data + size);
  if (pages.size() >= kWorthIt) ::madvise(pages.data(), pages.size(), MADV_HUGEPAGE);
}
// Releases the memory of values that are not needed any more. From now on they read as zeros, and
// those of a mapped file as before.
template <typename T>
void release_huge_pages(T* data, size_t size) {
  const auto pages = huge_pages_in(data, data + size);
  if (!pages.empty()) ::madvise(pages.data(), pages.size(), MADV_DONTNEED);
}

template <typename T>
std::vector<T> vector_of_huge_pages(size_t capacity) {
  std::vector<T> values;
  values.reserve(capacity);
  ask_for_huge_pages(values.data(), capacity);
  return values;
}

}  // namespace weft
