// json_string.h with NEON, which every aarch64 processor has.
#if defined(__aarch64__)

#include <bit>
#include <cstring>
#include <string_view>

#include "preprocess/documents/json_escape.h"
#include "preprocess/documents/json_string.h"
#include "preprocess/documents/json_string_blocks.h"
#include "tokenizer/split/neon_block.h"

namespace weft {
namespace {

uint8x16_t load_16(const char* position) {
  return vld1q_u8(reinterpret_cast<const uint8_t*>(position));
}

struct Neon {
  using Block = NeonBlock;
  static Block load(const char* position, size_t num_bytes) {
    if (num_bytes == 64) return load_neon_block(position);
    char padded[64] = {};
    std::memcpy(padded, position, num_bytes);
    return load_neon_block(padded);
  }
  static uint8x16_t is_quote(uint8x16_t bytes) { return bytes_equal(bytes, '"'); }
  static uint8x16_t is_backslash(uint8x16_t bytes) { return bytes_equal(bytes, '\\'); }
  static uint8x16_t is_control(uint8x16_t bytes) { return vcltq_u8(bytes, vdupq_n_u8(0x20)); }
  static uint8x16_t is_stop(uint8x16_t bytes) {
    return vorrq_u8(vorrq_u8(is_quote(bytes), is_backslash(bytes)), is_control(bytes));
  }
  static uint8x16_t is_known_escape(uint8x16_t bytes) {
    uint8x16_t found = vdupq_n_u8(0);
    for (const char c : std::string_view("\"\\/bfnrtu"))
      found = vorrq_u8(found, bytes_equal(bytes, c));
    return found;
  }
  static uint8x16_t is_u(uint8x16_t bytes) { return bytes_equal(bytes, 'u'); }
  static uint8x16_t is_hex_digit(uint8x16_t bytes) {
    const uint8x16_t lower_case = vorrq_u8(bytes, vdupq_n_u8(0x20));
    return vorrq_u8(bytes_in_range(bytes, '0', 10), bytes_in_range(lower_case, 'a', 6));
  }

  static uint64_t stops(const Block& block) { return neon_mask(block, is_stop); }
  static StringMasks masks(const Block& block) {
    return {neon_mask(block, is_quote), neon_mask(block, is_backslash),
            neon_mask(block, is_control)};
  }
  static EscapeMasks escape_masks(const Block& block) {
    return {neon_mask(block, is_known_escape), neon_mask(block, is_u)};
  }
  static uint64_t hex_digits(const Block& block) { return neon_mask(block, is_hex_digit); }
};

// Four bits for each byte of 16: the shortest way from a comparison to the first one found.
uint64_t nibbles_of(uint8x16_t found) {
  return vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(found), 4)), 0);
}

}  // namespace

StringEnd find_string_end_neon(const char* begin, const char* end) {
  return find_string_end_in_blocks<Neon>(begin, end);
}

// 16 bytes are copied whatever they are; those behind a backslash are overwritten by what follows.
char* unescape_string_neon(std::string_view raw, char* out, int64_t& num_replaced) {
  const char* position = raw.data();
  const char* const end = raw.data() + raw.size();
  while (position != end) {
    if (end - position >= 16) {
      const uint8x16_t bytes = load_16(position);
      vst1q_u8(reinterpret_cast<uint8_t*>(out), bytes);
      const uint64_t backslashes = nibbles_of(Neon::is_backslash(bytes));
      const int num_plain = std::countr_zero(backslashes) / 4;  // 16, if there is none
      out += num_plain;
      position += num_plain;
      if (backslashes == 0) continue;
    } else {
      while (position != end && *position != '\\') *out++ = *position++;
      if (position == end) break;
    }
    if (position[1] == 'u') {
      out = unescape_unicode(position, end, out, num_replaced);
    } else {
      *out++ = simple_escape(position[1]);
      position += 2;
    }
  }
  return out;
}

}  // namespace weft

#endif
