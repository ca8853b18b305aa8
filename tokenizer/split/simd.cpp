#include "tokenizer/split/simd.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace weft {
namespace {

Simd best_simd() {
  for (const Simd simd : {Simd::kAvx512, Simd::kAvx2, Simd::kNeon}) {
    if (has_simd(simd)) return simd;
  }
  return Simd::kScalar;
}

}  // namespace

bool has_simd([[maybe_unused]] Simd simd) {
#if defined(__x86_64__)
  // LZCNT is not asked for: clang 14 does not know its name, and every processor with BMI2 has it.
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
                        __builtin_cpu_supports("popcnt");
  if (simd == Simd::kAvx2) return has_avx2;
  if (simd == Simd::kAvx512) {
    return has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512vbmi2");
  }
#elif defined(__aarch64__)
  if (simd == Simd::kNeon) return true;
#endif
  return simd == Simd::kScalar;
}

Simd simd_of_name(const std::string& name) {
  const Simd simd = name == "avx512" ? Simd::kAvx512
                    : name == "avx2" ? Simd::kAvx2
                    : name == "neon" ? Simd::kNeon
                                     : Simd::kScalar;
  if (simd == Simd::kScalar && name != "scalar") {
    throw std::invalid_argument(
        "WEFT_SIMD=" + name + ": not one of scalar, avx2, avx512, neon (unset: the best there is)");
  }
  if (!has_simd(simd)) {
    throw std::invalid_argument("WEFT_SIMD=" + name +
                                ": this processor does not have it; unset it");
  }
  return simd;
}

Simd chosen_simd() {
  static const Simd chosen = [] {
    const char* const name = std::getenv("WEFT_SIMD");
    return name == nullptr || *name == '\0' ? best_simd() : simd_of_name(name);
  }();
  return chosen;
}

}  // namespace weft
