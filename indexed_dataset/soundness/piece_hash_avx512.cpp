// piece_hash.h with AVX-512. To be called only where the processor has it.
#if defined(__x86_64__)

// GCC 12 warns of its own header's undefined vectors (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#include <immintrin.h>

#include <cstdlib>
#include <cstring>

#include "indexed_dataset/soundness/piece_hash.h"

#pragma GCC target("avx512f")
#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_AVX512
#include <xxhash.h>

namespace weft {

void hash_piece_avx512(void* state, const void* data, size_t size_bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state), data, size_bytes);
}

}  // namespace weft

#endif
