// XXH3-64 of bytes that come in pieces, by the widest vectors that this processor has: the library
// alone takes SSE2, whatever there is. All give the same hash.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

class PieceHash {
 public:
  PieceHash();
  void add(const void* data, size_t size_bytes) { add_(state_, data, size_bytes); }
  uint64_t value() const;

  // As chosen for this processor, or one of those below: for tests.
  using Add = void (*)(void* state, const void* data, size_t size_bytes);
  explicit PieceHash(Add function);

 private:
  // The library's state, which its header shows only to whom compiles it in.
  alignas(64) std::byte state_[576];
  Add add_;
};

void hash_piece_plain(void* state, const void* data, size_t size_bytes);
#if defined(__x86_64__)
void hash_piece_avx2(void* state, const void* data, size_t size_bytes);
void hash_piece_avx512(void* state, const void* data, size_t size_bytes);  // F
#endif

}  // namespace weft
