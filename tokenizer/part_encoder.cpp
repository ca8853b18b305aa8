#include "tokenizer/part_encoder.h"

#include <cstdint>
#include <limits>

#include "tokenizer/split/char_at.h"
#include "tokenizer/split/split.h"
#include "tokenizer/split/split_scalar.h"
#include "tokenizer/text_encoder.h"
#include "tokenizer/vocabulary.h"

namespace weft {
namespace {

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max() / 4;  // twice it is no overflow

// So many bytes behind a piece must be known before its end is certain.
constexpr size_t kNumBytesBehindPiece = 2;

// A word goes on only if it has so many bytes beside the unsettled ones: more than a token and its
// neighbours have.
constexpr size_t kMinSettledBytes = 64;

size_t count_unsettled_bytes(const Vocabulary& vocabulary) {
  const auto& merges = vocabulary.merges();
  std::vector<size_t> made_by(static_cast<size_t>(vocabulary.size()), 0);  // last rule, from 1
  for (size_t i = 0; i < merges.size(); ++i) made_by[static_cast<size_t>(merges[i].result)] = i + 1;
  size_t num_bytes = 0;
  for (size_t i = 0; i < merges.size(); ++i) {
    if (made_by[static_cast<size_t>(merges[i].left)] > i ||
        made_by[static_cast<size_t>(merges[i].right)] > i) {
      return kNoLimit;
    }
    num_bytes += vocabulary.bytes(merges[i].left).size();
  }
  return num_bytes;
}

size_t end_of_run(std::string_view text, size_t begin, CharClass char_class) {
  const auto* const data = reinterpret_cast<const uint8_t*>(text.data());
  return static_cast<size_t>(run_end(data + begin, data + text.size(), char_class) - data);
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

// The last piece that is a piece whatever follows `text`; empty, at the beginning, if there is
// none.
struct Piece {
  size_t begin = 0, end = 0;
};
Piece last_certain_piece(std::string_view text) {
  size_t ends[kSplitBatch];
  Piece last;
  for (size_t begin = 0; begin < text.size();) {
    const size_t num_pieces = split_pieces(text, begin, ends, kSplitBatch);
    for (size_t i = num_pieces; i-- > 0;) {
      if (ends[i] + kNumBytesBehindPiece > text.size()) continue;
      last = {i > 0 ? ends[i - 1] : begin, ends[i]};
      break;
    }
    begin = ends[num_pieces - 1];
  }
  return last;
}

// The class of the word that begins `text`, and where its run of that class begins.
struct WordStart {
  CharClass char_class;
  size_t run_begin;
};
WordStart start_of_word(std::string_view text) {
  const auto* const data = reinterpret_cast<const uint8_t*>(text.data());
  const CharClass first = char_at(data, data + text.size()).char_class;
  if (text[0] != ' ' || text.size() == 1) return {first, 0};
  const CharClass second = char_at(data + 1, data + text.size()).char_class;
  return {second, second == CharClass::kSpace ? size_t{0} : size_t{1}};
}

}  // namespace

PartEncoder::PartEncoder(const Vocabulary& vocabulary, TextEncoder& encoder)
    : vocabulary_(vocabulary),
      encoder_(encoder),
      num_unsettled_bytes_(count_unsettled_bytes(vocabulary)) {}

template <typename Id>
size_t PartEncoder::encode(std::string_view text, bool is_last, BegunText& begun,
                           std::vector<Id>& ids) {
  size_t done = begun.word ? go_on(text, 0, is_last, begun, ids) : 0;
  if (begun.word) return done;
  text.remove_prefix(done);
  if (is_last) {
    encoder_.encode(text, ids);
    return done + text.size();
  }
  const Piece last = last_certain_piece(text);
  // The last white space before a word may be a piece of its own, but not at the end of a text.
  const bool is_space =
      end_of_run(text.substr(0, last.end), last.begin, CharClass::kSpace) == last.end;
  encoder_.encode(text.substr(0, is_space ? last.begin : last.end), ids);
  if (is_space) encoder_.encode(text.substr(last.begin, last.end - last.begin), ids);
  done += last.end;
  text.remove_prefix(last.end);
  if (text.size() < 2 * num_unsettled_bytes_ + kMinSettledBytes) return done;
  const WordStart start = start_of_word(text);
  begun.word = start.char_class;
  return done + go_on(text, start.run_begin, is_last, begun, ids);
}

// Encodes the rest of the word that was begun, or what is settled of it.
template <typename Id>
size_t PartEncoder::go_on(std::string_view text, size_t run_begin, bool is_last, BegunText& begun,
                          std::vector<Id>& ids) {
  // A token may end within a character: the rest of that character belongs to the word, too.
  while (run_begin < text.size() && is_continuation(static_cast<uint8_t>(text[run_begin]))) {
    ++run_begin;
  }
  size_t end = end_of_run(text, run_begin, *begun.word);
  const bool is_known_to_end = is_last || end < text.size();
  // The last white space of a run is no part of the word if something else follows.
  const bool may_be_followed = !is_last || end < text.size();
  if (*begun.word == CharClass::kSpace && may_be_followed && end > 0) {
    end -= last_space_bytes(text.substr(0, end));
  }
  if (!is_known_to_end) return encode_settled(text.substr(0, end), ids);
  encoder_.encode_word(text.substr(0, end), ids);
  begun.word.reset();
  return end;
}

// Encodes what is settled of the beginning of a word, and returns the number of its bytes.
template <typename Id>
size_t PartEncoder::encode_settled(std::string_view word, std::vector<Id>& ids) {
  if (word.size() < num_unsettled_bytes_) return 0;
  const size_t num_before = ids.size();
  encoder_.encode_word(word, ids);
  size_t num_open = 0;
  while (num_open < num_unsettled_bytes_ && ids.size() > num_before) {
    num_open += vocabulary_.bytes(static_cast<int32_t>(ids.back())).size();
    ids.pop_back();
  }
  return word.size() - num_open;
}

template size_t PartEncoder::encode(std::string_view, bool, BegunText&, std::vector<int32_t>&);
template size_t PartEncoder::encode(std::string_view, bool, BegunText&, std::vector<uint16_t>&);

}  // namespace weft
