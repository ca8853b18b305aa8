// XXH3-64 with AVX2. To be called only where has_simd(Simd::kAvx2).
#if defined(__x86_64__)

// GCC 12 warns of its own header's undefined vectors (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#include <immintrin.h>

#include <cstdlib>
#include <cstring>

#include "preprocess/documents/line_hash.h"

#pragma GCC target("avx2")
#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_AVX2
#include <xxhash.h>

namespace weft {

uint64_t line_hash_avx2(std::string_view line) { return XXH3_64bits(line.data(), line.size()); }

}  // namespace weft

#endif
