#include "tokenizer/merge/pair_merger.h"

#include <algorithm>
#include <bit>
#include <type_traits>

namespace weft {
namespace {

// Tokens taken back before the next window begins. The last one or two of a window depend on what
// follows it in most texts, those before hardly ever.
constexpr size_t kFirstLookback = 2;
// Pairs that are compared side by side.
constexpr size_t kLanes = 4;
// A window must bring at least so many new bytes, or the tokens are too long for windows.
constexpr size_t kMinNewBytes = 8;

}  // namespace

template <typename Token>
size_t PairMerger<Token>::merge_short(std::string_view word, Token* tokens) const {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(word.data());
  size_t num_tokens = 0, begin = 0;
  for (size_t i = 1; i < word.size(); ++i) {
    if (table_.find_bytes(bytes[i - 1], bytes[i]) != PairTable<Token>::kNever) continue;
    num_tokens += merge_part(bytes + begin, i - begin, tokens + num_tokens);
    begin = i;
  }
  return num_tokens + merge_part(bytes + begin, word.size() - begin, tokens + num_tokens);
}

// Parts of one or two bytes are the most frequent ones in words without sense.
template <typename Token>
size_t PairMerger<Token>::merge_two(const uint8_t* part, size_t num_bytes, Token* tokens) const {
  tokens[0] = part[0];
  if (num_bytes == 1) return 1;
  tokens[1] = part[1];
  const Token product = table_.find_bytes(part[0], part[1]);
  if (product >= PairTable<Token>::kNever) return 2;
  tokens[0] = product;
  return 1;
}

// Merges in place: a token stays where its first byte is, and `alive` has a bit for each token. One
// number holds a pair's product and, for the leftmost of equal ones, its position. Positions count
// from 1; before the first and behind the last token stands one that merges with none, so that all
// merges are the same few instructions.
template <typename Token>
size_t PairMerger<Token>::merge_part(const uint8_t* part, size_t num_bytes, Token* tokens) const {
  using Key = std::conditional_t<sizeof(Token) == 2, uint32_t, uint64_t>;
  constexpr int kTokenBits = 8 * sizeof(Token);
  constexpr Key kNoPair = Key{PairTable<Token>::kNever} << kTokenBits;
  if (num_bytes <= 2) return merge_two(part, num_bytes, tokens);
  Token at[kMaxShortBytes + 2];
  Key pairs[kMaxShortBytes + kLanes];
  at[0] = table_.lone_token();
  pairs[0] = kNoPair;
  for (size_t i = 1; i < num_bytes; ++i) {
    at[i] = part[i - 1];
    pairs[i] = Key{table_.find_bytes(part[i - 1], part[i])} << kTokenBits | i;
  }
  at[num_bytes] = part[num_bytes - 1];
  at[num_bytes + 1] = table_.lone_token();
  for (size_t i = 0; i < kLanes; ++i) pairs[num_bytes + i] = kNoPair;
  uint64_t alive = (uint64_t{1} << (num_bytes + 2)) - 1;
  for (;;) {
    Key a = pairs[0], b = pairs[1], c = pairs[2], d = pairs[3];
    for (size_t i = kLanes; i < num_bytes; i += kLanes) {
      a = std::min(a, pairs[i]);
      b = std::min(b, pairs[i + 1]);
      c = std::min(c, pairs[i + 2]);
      d = std::min(d, pairs[i + 3]);
      // These stay conditional moves: a vector would wait for the numbers just written.
      asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
    }
    const Key best = std::min(std::min(a, b), std::min(c, d));
    if (best >= kNoPair) break;
    const auto i = static_cast<size_t>(best & PairTable<Token>::kNone);
    const auto product = static_cast<Token>(best >> kTokenBits);
    const uint64_t behind = alive & (~uint64_t{1} << i);
    const uint64_t rest = behind & (behind - 1);
    const uint64_t before = alive & ((uint64_t{1} << i) - 1);
    const auto left = static_cast<size_t>(63 - std::countl_zero(before));
    alive ^= behind ^ rest;
    at[i] = product;
    pairs[std::countr_zero(behind)] = kNoPair;
    pairs[i] = Key{table_.find(product, at[std::countr_zero(rest)])} << kTokenBits | i;
    pairs[left] = Key{table_.find(at[left], product)} << kTokenBits | left;
  }
  size_t num_tokens = 0;
  alive &= (uint64_t{2} << num_bytes) - 2;
  for (; alive != 0; alive &= alive - 1) tokens[num_tokens++] = at[std::countr_zero(alive)];
  return num_tokens;
}

template <typename Token>
template <typename Id>
bool PairMerger<Token>::merge_by_windows(std::string_view word, std::vector<Id>& ids) const {
  const size_t num_ids_before = ids.size();
  // The last tokens found, of the text before `end`; those before them are in `ids`.
  Token tokens[8 * kMaxShortBytes];
  size_t num_tokens = 0, end = 0;
  const auto append = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) ids.push_back(static_cast<Id>(table_.id(tokens[i])));
    std::copy(tokens + count, tokens + num_tokens, tokens);
    num_tokens -= count;
  };
  while (end < word.size()) {
    size_t num_kept = num_tokens, begin = end, num_new = 0;
    for (size_t num_back = 0; num_new == 0;) {
      for (; num_kept > 0 && num_back < kFirstLookback; ++num_back) {
        begin -= table_.num_bytes(tokens[--num_kept]);
      }
      const size_t num_bytes = std::min(kMaxShortBytes, word.size() - begin);
      if (begin + num_bytes < word.size() && begin + num_bytes < end + kMinNewBytes) {
        ids.resize(num_ids_before);
        return false;
      }
      Token window[kMaxShortBytes];
      num_new = merge_short(word.substr(begin, num_bytes), window);
      if (begin > 0 && !table_.is_stable(tokens[num_kept - 1], window[0])) {
        num_new = 0;
        --num_back;  // one token more
        continue;
      }
      std::copy(window, window + num_new, tokens + num_kept);
      end = begin + num_bytes;
    }
    num_tokens = num_kept + num_new;
    if (num_tokens > 6 * kMaxShortBytes) append(num_tokens - 2 * kMaxShortBytes);
  }
  append(num_tokens);
  return true;
}

template class PairMerger<uint16_t>;
template class PairMerger<uint32_t>;
template bool PairMerger<uint16_t>::merge_by_windows(std::string_view,
                                                     std::vector<uint16_t>&) const;
template bool PairMerger<uint16_t>::merge_by_windows(std::string_view, std::vector<int32_t>&) const;
template bool PairMerger<uint32_t>::merge_by_windows(std::string_view,
                                                     std::vector<uint16_t>&) const;
template bool PairMerger<uint32_t>::merge_by_windows(std::string_view, std::vector<int32_t>&) const;

}  // namespace weft
