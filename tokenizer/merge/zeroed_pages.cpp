#include "tokenizer/merge/zeroed_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

namespace weft {
namespace {

constexpr size_t kHugePageBytes = 2 << 20;

}  // namespace

// Huge pages need an aligned address, and the advice must come before the first touch: so more is
// mapped than wanted, and the ends are unmapped.
ZeroedPages::ZeroedPages(size_t num_bytes)
    : num_bytes_((num_bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes) {
  void* const mapped = mmap(nullptr, num_bytes_ + kHugePageBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  char* const begin = static_cast<char*>(mapped);
  const size_t num_before = -reinterpret_cast<uintptr_t>(begin) % kHugePageBytes;
  char* const end = begin + num_before + num_bytes_;
  if (num_before > 0) munmap(begin, num_before);
  if (num_before < kHugePageBytes) munmap(end, kHugePageBytes - num_before);
  data_ = begin + num_before;
  madvise(data_, num_bytes_, MADV_HUGEPAGE);  // only advice: without it everything is slower
}

ZeroedPages::~ZeroedPages() {
  if (data_ != nullptr) munmap(data_, num_bytes_);
}

void ZeroedPages::swap(ZeroedPages& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(num_bytes_, other.num_bytes_);
}

}  // namespace weft
