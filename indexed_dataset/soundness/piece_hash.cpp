#include "indexed_dataset/soundness/piece_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <new>

namespace weft {
namespace {

PieceHash::Add best() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return hash_piece_avx512;
  if (__builtin_cpu_supports("avx2")) return hash_piece_avx2;
#endif
  return hash_piece_plain;
}

}  // namespace

PieceHash::PieceHash() : PieceHash(best()) {}

PieceHash::PieceHash(Add function) : add_(function) {
  static_assert(sizeof state_ >= sizeof(XXH3_state_t) && alignof(XXH3_state_t) <= 64);
  XXH3_64bits_reset(new (state_) XXH3_state_t);
}

uint64_t PieceHash::value() const {
  return XXH3_64bits_digest(reinterpret_cast<const XXH3_state_t*>(state_));
}

void hash_piece_plain(void* state, const void* data, size_t size_bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state), data, size_bytes);
}

}  // namespace weft
