// Gives large zeroed memory in huge pages where the system has them: a table that is read at random
// then misses the TLB 512 times less often.
#pragma once

#include <cstddef>

namespace weft {

// Owns `num_bytes` zeros, aligned to 2 MiB. Pages are allocated when they are first touched.
// Throws std::bad_alloc.
class ZeroedPages {
 public:
  ZeroedPages() = default;
  explicit ZeroedPages(size_t num_bytes);
  ~ZeroedPages();
  ZeroedPages(ZeroedPages&& other) noexcept { swap(other); }
  ZeroedPages& operator=(ZeroedPages&& other) noexcept {
    swap(other);
    return *this;
  }

  void* data() const { return data_; }

 private:
  void swap(ZeroedPages& other) noexcept;

  void* data_ = nullptr;
  size_t num_bytes_ = 0;
};

}  // namespace weft
