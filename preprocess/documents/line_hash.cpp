#include "preprocess/documents/line_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <new>

#include "tokenizer/split/split.h"

namespace weft {
namespace {

// So that a too long line does not count as the text of its length.
constexpr XXH64_hash_t kSeedOfLengths = 1;

}  // namespace

uint64_t line_hash_plain(std::string_view line) { return XXH3_64bits(line.data(), line.size()); }

uint64_t line_hash(std::string_view line) {
#if defined(__x86_64__)
  static const auto best = chosen_simd() == Simd::kAvx512 ? line_hash_avx512
                           : chosen_simd() == Simd::kAvx2 ? line_hash_avx2
                                                          : line_hash_plain;
  return best(line);
#else
  return line_hash_plain(line);
#endif
}

LineHasher::LineHasher() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_));
}
LineHasher::~LineHasher() { XXH3_freeState(static_cast<XXH3_state_t*>(state_)); }
void LineHasher::add(std::string_view part) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), part.data(), part.size());
}
uint64_t LineHasher::hash() const {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_));
}

void TextHash::add_line(std::string_view line) { add_hash(line_hash(line)); }

void TextHash::add_too_long_line(int64_t num_bytes) {
  add_hash(XXH3_64bits_withSeed(&num_bytes, sizeof num_bytes, kSeedOfLengths));
}

void TextHash::add(const TextHash& next, int64_t num_lines) {
  value_ = (multiply(value_, power(kBase, num_lines)) + next.value_) % kModulus;
}

void TextHash::add_hash(uint64_t hash) {
  value_ = (multiply(value_, kBase) + hash % kModulus) % kModulus;
}

uint64_t TextHash::multiply(uint64_t a, uint64_t b) {
  __extension__ using Product = unsigned __int128;
  const Product product = static_cast<Product>(a) * b;
  // 2^61 is 1 here: the bits above are added to those below.
  const uint64_t sum =
      (static_cast<uint64_t>(product) & kModulus) + static_cast<uint64_t>(product >> 61);
  return sum >= kModulus ? sum - kModulus : sum;
}

uint64_t TextHash::power(uint64_t base, int64_t exponent) {
  uint64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = multiply(result, base);
    base = multiply(base, base);
  }
  return result;
}

}  // namespace weft
