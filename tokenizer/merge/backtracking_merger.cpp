#include "tokenizer/merge/backtracking_merger.h"

#include <stdexcept>

namespace weft {
namespace {

// Only hostile text has longer words: their memory is released.
constexpr size_t kMaxKeptWords = 1 << 14;

}  // namespace

bool BacktrackingMerger::is_stable(Token left, Token right) {
  const uint64_t pair = (uint64_t{left} << 32 | uint64_t{right} << 1) + 2;
  uint64_t& memo = memo_[(pair * 0x9E3779B97F4A7C15) >> (64 - kMemoBits)];
  if ((memo & ~uint64_t{1}) != pair) memo = pair | uint64_t{table_.is_stable(left, right)};
  return memo & 1;
}

void BacktrackingMerger::merge(std::string_view word, std::vector<int32_t>& ids) {
  const size_t first = ids.size();  // tokens are kept in `ids`, too, until the end
  dead_.assign(word.size() / 64 + 1, 0);
  size_t position = 0;
  Token token = word.empty() ? BacktrackTable::kNone : table_.longest_match(word);
  while (position < word.size()) {
    const size_t end = position + table_.num_bytes(token);
    if (!is_dead(end) &&
        (ids.size() == first || is_stable(static_cast<Token>(ids.back()), token))) {
      ids.push_back(static_cast<int32_t>(token));
      position = end;
      if (position < word.size()) token = table_.longest_match(word.substr(position));
    } else if (const Token shorter = table_.next_shorter(token); shorter != BacktrackTable::kNone) {
      token = shorter;
    } else {
      if (ids.size() == first) throw std::logic_error("tokenizer: a word has no encoding");
      dead_[position / 64] |= uint64_t{1} << position % 64;
      token = static_cast<Token>(ids.back());
      ids.pop_back();
      position -= table_.num_bytes(token);
      // Its own end is dead now, so the next round goes on with a shorter one.
    }
  }
  for (size_t i = first; i < ids.size(); ++i) ids[i] = table_.id(static_cast<Token>(ids[i]));
  if (dead_.size() > kMaxKeptWords) dead_ = {};
}

}  // namespace weft
