#include "tokenizer/split/split.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "tokenizer/split/split_scalar.h"
#include "tokenizer/split/split_simd.h"

namespace weft {
namespace {

// A block may hold so many pieces; with less room the vector splitters could not write what they
// find.
constexpr size_t kMaxPiecesOfABlock = 64;

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

size_t split_pieces(std::string_view text, size_t begin, size_t* ends, size_t max_pieces) {
  return split_pieces_with(chosen_simd(), text, begin, ends, max_pieces);
}

size_t split_pieces_with([[maybe_unused]] Simd simd, std::string_view text, size_t begin,
                         size_t* ends, size_t max_pieces) {
#if defined(__x86_64__)
  if (simd == Simd::kAvx512 && max_pieces >= kMaxPiecesOfABlock) {
    return split_pieces_avx512(text, begin, ends, max_pieces);
  }
  if (simd == Simd::kAvx2 && max_pieces >= kMaxPiecesOfABlock) {
    return split_pieces_avx2(text, begin, ends, max_pieces);
  }
#elif defined(__aarch64__)
  if (simd == Simd::kNeon && max_pieces >= kMaxPiecesOfABlock) {
    return split_pieces_neon(text, begin, ends, max_pieces);
  }
#endif
  return split_pieces_scalar(text, begin, ends, max_pieces);
}

}  // namespace weft
