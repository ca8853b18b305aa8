#include "preprocess/documents/json_string.h"

#include <algorithm>

#include "preprocess/documents/json_escape.h"

namespace weft {
namespace {

constexpr uint64_t kOnes = 0x0101010101010101;
constexpr uint64_t kHighs = 0x8080808080808080;

uint64_t load_word(const char* position) {
  uint64_t word;
  std::memcpy(&word, position, sizeof(word));
  return word;
}

// The high bit of each byte of `word` that is zero. Bytes above a zero one may be marked wrongly:
// use the lowest mark.
constexpr uint64_t zero_bytes(uint64_t word) { return (word - kOnes) & ~word & kHighs; }

// The first byte that is a quote, a backslash or a control character, which end the plain part of a
// string.
const char* find_stop(const char* position, const char* end) {
  static_assert(std::endian::native == std::endian::little, "the lowest mark is the first byte");
  for (; end - position >= 8; position += 8) {
    const uint64_t word = load_word(position);
    const uint64_t controls = (word - kOnes * 0x20) & ~word & kHighs;
    const uint64_t stops =
        zero_bytes(word ^ (kOnes * '"')) | zero_bytes(word ^ (kOnes * '\\')) | controls;
    if (stops != 0) return position + std::countr_zero(stops) / 8;
  }
  while (position != end && *position != '"' && *position != '\\' &&
         static_cast<uint8_t>(*position) >= 0x20) {
    ++position;
  }
  return position;
}

// Steps over the escape at `position`; says what is wrong with it, nullptr if nothing is.
const char* skip_escape(const char*& position, const char* end) {
  if (end - position < 2) return "a backslash at the end of the line";
  if (position[1] == 'u') {
    if (end - position < 6 || !are_four_hex_digits(position + 2))
      return "a \\u escape without four hexadecimal digits";
    position += 6;
    return nullptr;
  }
  if (simple_escape(position[1]) == 0) return "an unknown escape";
  position += 2;
  return nullptr;
}

char* unescape_string_scalar(std::string_view raw, char* out, int64_t& num_replaced) {
  const char* position = raw.data();
  const char* end = raw.data() + raw.size();
  while (position != end) {
    const void* found = std::memchr(position, '\\', static_cast<size_t>(end - position));
    const char* stop = found != nullptr ? static_cast<const char*>(found) : end;
    const auto num_plain = static_cast<size_t>(stop - position);
    std::memcpy(out, position, num_plain);
    out += num_plain;
    position = stop;
    if (position == end) break;
    if (position[1] == 'u') {
      out = unescape_unicode(position, end, out, num_replaced);
    } else {
      *out++ = simple_escape(position[1]);
      position += 2;
    }
  }
  return out;
}

// True if the backslash at `at` begins an escape: an even number of them comes before it.
bool begins_escape(std::string_view raw, size_t at) {
  size_t begin = at;
  while (begin > 0 && raw[begin - 1] == '\\') --begin;
  return (at - begin) % 2 == 0;
}

// True if a \uXXXX at `at` has this high byte, but for its two lowest bits.
bool is_surrogate_escape(std::string_view raw, size_t at, uint32_t high_byte) {
  return at + 6 <= raw.size() && raw[at] == '\\' && raw[at + 1] == 'u' &&
         are_four_hex_digits(raw.data() + at + 2) &&
         (hex_value(raw.data() + at + 2) >> 8 & 0xFC) == high_byte;
}

}  // namespace

StringEnd finish_string_end(const char* begin, const char* position, const char* end,
                            bool has_escapes) {
  for (;;) {
    position = find_stop(position, end);
    if (position == end) return {begin - 1, "a string that starts here has no end", has_escapes};
    if (*position == '"') return {position, nullptr, has_escapes};
    if (*position != '\\')
      return {position, "a raw control character inside a string", has_escapes};
    has_escapes = true;
    if (const char* error = skip_escape(position, end)) return {position, error, true};
  }
}

StringEnd find_string_end(const char* begin, const char* end) {
  return find_string_end_with(chosen_simd(), begin, end);
}

StringEnd find_string_end_with([[maybe_unused]] Simd simd, const char* begin, const char* end) {
#if defined(__x86_64__)
  if (simd == Simd::kAvx512) return find_string_end_avx512(begin, end);
  if (simd == Simd::kAvx2) return find_string_end_avx2(begin, end);
#elif defined(__aarch64__)
  if (simd == Simd::kNeon) return find_string_end_neon(begin, end);
#endif
  return finish_string_end(begin, begin, end, false);
}

char* unescape_string(std::string_view raw, char* out, int64_t& num_replaced) {
  return unescape_string_with(chosen_simd(), raw, out, num_replaced);
}

char* unescape_string_with([[maybe_unused]] Simd simd, std::string_view raw, char* out,
                           int64_t& num_replaced) {
#if defined(__x86_64__)
  if (simd == Simd::kAvx512) return unescape_string_avx512(raw, out, num_replaced);
  if (simd == Simd::kAvx2) return unescape_string_avx2(raw, out, num_replaced);
#elif defined(__aarch64__)
  if (simd == Simd::kNeon) return unescape_string_neon(raw, out, num_replaced);
#endif
  return unescape_string_scalar(raw, out, num_replaced);
}

size_t cut_of_string(std::string_view raw, size_t at) {
  constexpr size_t kUnicodeEscapeBytes = 6;
  if (at == raw.size()) return at;
  while (at > 0 && (raw[at] & 0xC0) == 0x80) --at;
  // The last backslash that may begin an escape which reaches `at`.
  const size_t from = at - std::min(at, kUnicodeEscapeBytes - 1);
  const size_t backslash = raw.substr(from, at - from).rfind('\\');
  if (backslash != raw.npos && begins_escape(raw, from + backslash)) {
    const bool is_unicode = raw[from + backslash + 1] == 'u';
    if (from + backslash + (is_unicode ? kUnicodeEscapeBytes : 2) > at) at = from + backslash;
  }
  const size_t before = at - std::min(at, kUnicodeEscapeBytes);
  if (is_surrogate_escape(raw, at, 0xDC) && is_surrogate_escape(raw, before, 0xD8) &&
      before + kUnicodeEscapeBytes == at && begins_escape(raw, before)) {
    at = before;
  }
  return at;
}

}  // namespace weft
