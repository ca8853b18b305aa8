#include "tokenizer/part_encoder.h"

#include <cstdint>
#include <limits>

#include "tokenizer/text_encoder.h"
#include "tokenizer/vocabulary.h"

namespace weft {
namespace {

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max() / 4;  // twice it is no overflow

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

}  // namespace

PartEncoder::PartEncoder(const Vocabulary& vocabulary, TextEncoder& encoder)
    : vocabulary_(vocabulary),
      encoder_(encoder),
      num_unsettled_bytes_(count_unsettled_bytes(vocabulary)) {}

template <typename Id>
size_t PartEncoder::encode(std::string_view text, bool is_last, BegunText& begun,
                           std::vector<Id>& ids) {
  const SplitPattern& pattern = vocabulary_.pattern();
  size_t done = 0;
  while (true) {
    if (begun.piece == kNoPiece) {
      const std::string_view rest = text.substr(done);
      const size_t end = is_last ? rest.size() : pattern.certain_end(rest);
      encoder_.encode(rest.substr(0, end), ids);
      done += end;
      const size_t num_left = text.size() - done;
      if (is_last || num_left < 2 * num_unsettled_bytes_ + kMinSettledBytes) return done;
    }
    const std::string_view rest = text.substr(done);
    const PieceReach reach = pattern.reach(rest, is_last, begun.piece);
    const std::string_view word = rest.substr(0, reach.num_bytes);
    if (!reach.is_end) return done + encode_settled(word, ids);
    encoder_.encode_word(word, ids);
    done += word.size();
  }
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
