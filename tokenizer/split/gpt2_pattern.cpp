#include "tokenizer/split/gpt2_pattern.h"

#include "tokenizer/split/char_at.h"
#include "tokenizer/split/gpt2_piece.h"
#include "tokenizer/split/split_simd.h"

namespace weft {
namespace {

// A block may hold so many pieces; with less room the vector splitters could not write what they
// find.
constexpr size_t kMaxPiecesOfABlock = 64;

// Where a piece ends depends on the piece, on the character behind it and, after an apostrophe, on
// one byte more.
constexpr size_t kNumBytesBehindPiece = 2;

const uint8_t* bytes_of(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

size_t end_of_run(std::string_view text, size_t begin, CharClass char_class) {
  const uint8_t* const data = bytes_of(text);
  return static_cast<size_t>(run_end(data + begin, data + text.size(), char_class) - data);
}

bool is_white_space(std::string_view text) {
  return end_of_run(text, 0, CharClass::kSpace) == text.size();
}

// Counts the bytes of the last character of `text`, which is white space.
size_t last_space_bytes(std::string_view text) {
  size_t num_bytes = 1;
  while (num_bytes < text.size() &&
         is_continuation(static_cast<uint8_t>(text[text.size() - num_bytes]))) {
    ++num_bytes;
  }
  return num_bytes;
}

// The class of the characters of the piece that begins `text`, beside a space before them.
CharClass class_of_piece(std::string_view text) {
  const uint8_t *const p = bytes_of(text), *const end = p + text.size();
  const CharClass first = char_at(p, end).char_class;
  return *p == ' ' && p + 1 < end ? char_at(p + 1, end).char_class : first;
}

// The state of a piece that goes on is the class of its run.
PieceState state_of(CharClass char_class) { return 1 + static_cast<PieceState>(char_class); }
CharClass class_of_state(PieceState state) { return static_cast<CharClass>(state - 1); }

}  // namespace

Gpt2Pattern::Gpt2Pattern([[maybe_unused]] Simd simd) : split_batch_(split_gpt2_scalar) {
#if defined(__x86_64__)
  if (simd == Simd::kAvx512) split_batch_ = split_gpt2_avx512;
  if (simd == Simd::kAvx2) split_batch_ = split_gpt2_avx2;
#elif defined(__aarch64__)
  if (simd == Simd::kNeon) split_batch_ = split_gpt2_neon;
#endif
}

size_t Gpt2Pattern::split(std::string_view text, size_t begin, size_t* ends,
                          size_t max_pieces) const {
  return max_pieces < kMaxPiecesOfABlock ? split_gpt2_scalar(text, begin, ends, max_pieces)
                                         : split_batch_(text, begin, ends, max_pieces);
}

// No piece goes on from another character to white space.
bool Gpt2Pattern::is_safe_cut(std::string_view text, size_t at) const {
  const uint8_t before = kByteClasses[static_cast<uint8_t>(text[at - 1])];
  const uint8_t behind = kByteClasses[static_cast<uint8_t>(text[at])];
  constexpr auto kSpace = static_cast<uint8_t>(CharClass::kSpace);
  return before != kSpace && before != kNotAscii && behind == kSpace;
}

// A text must not be cut behind white space: before another character the last of it is a piece of
// its own, or belongs to the next one, but not at the end of a text.
size_t Gpt2Pattern::certain_end(std::string_view text) const {
  size_t ends[kSplitBatch];
  size_t certain = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t num_pieces = split(text, begin, ends, kSplitBatch);
    for (size_t i = num_pieces; i-- > 0;) {
      const size_t piece_begin = i > 0 ? ends[i - 1] : begin;
      if (ends[i] + kNumBytesBehindPiece > text.size() ||
          is_white_space(text.substr(piece_begin, ends[i] - piece_begin))) {
        continue;
      }
      certain = ends[i];
      break;
    }
    begin = ends[num_pieces - 1];
  }
  return certain;
}

PieceReach Gpt2Pattern::reach(std::string_view text, bool is_last, PieceState& state) const {
  size_t run_begin = 0;
  if (state == kNoPiece) {
    if (text.empty() || (text[0] == '\'' && text.size() < 3 && !is_last)) return {0, is_last};
    const uint8_t* const data = bytes_of(text);
    const auto end = static_cast<size_t>(gpt2_piece_end(data, data + text.size()) - data);
    const bool is_contraction = text[0] == '\'' && contraction_bytes(data, data + text.size()) > 0;
    if (is_last || end < text.size() || is_contraction) return {end, true};
    state = state_of(class_of_piece(text));
    run_begin = end;
  }
  // The rest of a character that was cut belongs to the piece, too.
  while (run_begin < text.size() && is_continuation(static_cast<uint8_t>(text[run_begin]))) {
    ++run_begin;
  }
  const CharClass char_class = class_of_state(state);
  size_t end = end_of_run(text, run_begin, char_class);
  const bool is_at_end_of_text = is_last && end == text.size();
  const bool is_end = is_last || end < text.size();
  // The last white space of a run is no part of the piece if something else follows.
  if (char_class == CharClass::kSpace && !is_at_end_of_text && end > 0) {
    end -= last_space_bytes(text.substr(0, end));
  }
  if (is_end) state = kNoPiece;
  return {end, is_end};
}

}  // namespace weft
