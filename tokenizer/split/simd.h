// The instructions that splitters and word caches use, chosen once for this processor.
#pragma once

#include <string>

namespace weft {

// All give the same results. kAvx512 needs BW, VBMI and VBMI2 (Intel since Ice Lake, AMD since
// Zen 4). kNeon: every aarch64 processor.
enum class Simd { kScalar, kAvx2, kAvx512, kNeon };

// True if this processor has them.
bool has_simd(Simd simd);

// Returns the value of a name: scalar, avx2, avx512 or neon. Throws std::invalid_argument for other
// names, and for what this processor lacks.
Simd simd_of_name(const std::string& name);

// Returns the best of this processor, or the one that $WEFT_SIMD names (errors as by simd_of_name).
Simd chosen_simd();

}  // namespace weft
