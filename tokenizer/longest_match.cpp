#include "tokenizer/longest_match.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>

namespace weft {
namespace {

uint8_t byte_at(std::string_view text, size_t at) { return static_cast<uint8_t>(text[at]); }

size_t find_byte(std::string_view text, size_t from, char byte) {
  return from < text.size() ? text.find(byte, from) : text.npos;
}

// Compares 64 places at once, which compilers turn into vector instructions: a run of spaces is
// looked for in texts where every sixth byte is a space.
size_t find_pair(std::string_view text, size_t from, char first, char second) {
  constexpr size_t kBlock = 64;
  const char* const p = text.data();
  for (; from + kBlock < text.size(); from += kBlock) {
    uint8_t any = 0;
    for (size_t i = from; i < from + kBlock; ++i) any |= (p[i] == first) & (p[i + 1] == second);
    if (any != 0) break;
  }
  for (; from + 1 < text.size(); ++from) {
    if (p[from] == first && p[from + 1] == second) return from;
  }
  return text.npos;
}

}  // namespace

LongestMatch::LongestMatch(const std::vector<std::string>& strings) : idx_of_(strings.size()) {
  std::iota(idx_of_.begin(), idx_of_.end(), size_t{0});
  std::stable_sort(idx_of_.begin(), idx_of_.end(),
                   [&](size_t a, size_t b) { return strings[a] < strings[b]; });
  const auto equal = [&](size_t a, size_t b) { return strings[a] == strings[b]; };
  idx_of_.erase(std::unique(idx_of_.begin(), idx_of_.end(), equal), idx_of_.end());
  for (const size_t idx : idx_of_) strings_.push_back(strings[idx]);
  for (size_t i = 0; i < strings_.size(); ++i) first_of_[byte_at(strings_[i], 0) + 1] = i + 1;
  for (size_t byte = 0; byte < 256; ++byte)
    first_of_[byte + 1] = std::max(first_of_[byte], first_of_[byte + 1]);
  for (size_t byte = 0; byte < 256; ++byte) {
    const size_t begin = first_of_[byte], end = first_of_[byte + 1];
    if (begin == end) continue;
    const auto second = [&](size_t i) {
      return strings_[i].size() > 1 ? static_cast<int>(byte_at(strings_[i], 1)) : -1;
    };
    const bool is_one = second(begin) == second(end - 1);
    starts_.push_back({static_cast<char>(byte), is_one ? second(begin) : -1});
  }
  if (starts_.size() > kMaxStarts) starts_.clear();
}

size_t LongestMatch::Start::find(std::string_view text, size_t from) const {
  return second < 0 ? find_byte(text, from, first)
                    : find_pair(text, from, first, static_cast<char>(second));
}

// The strings that begin as the text does are a stretch of the sorted list, which gets shorter with
// every byte.
std::optional<LongestMatch::Match> LongestMatch::longest_at(std::string_view text,
                                                            size_t begin) const {
  size_t lo = first_of_[byte_at(text, begin)], hi = first_of_[byte_at(text, begin) + 1];
  std::optional<Match> longest;
  for (size_t depth = 1; lo < hi; ++depth) {
    // A string that ends here stands before those that go on.
    if (strings_[lo].size() == depth) longest = Match{begin, begin + depth, idx_of_[lo++]};
    if (lo == hi || begin + depth == text.size()) break;
    const uint8_t byte = byte_at(text, begin + depth);
    const auto its_byte = [&](const std::string& string) { return byte_at(string, depth); };
    if (its_byte(strings_[lo]) == byte && its_byte(strings_[hi - 1]) == byte) continue;
    const auto first = strings_.begin() + static_cast<ptrdiff_t>(lo),
               last = strings_.begin() + static_cast<ptrdiff_t>(hi);
    const auto lower = std::ranges::lower_bound(first, last, byte, {}, its_byte),
               upper = std::ranges::upper_bound(lower, last, byte, {}, its_byte);
    lo = static_cast<size_t>(lower - strings_.begin());
    hi = static_cast<size_t>(upper - strings_.begin());
  }
  return longest;
}

LongestMatch::Search::Search(const LongestMatch& set, std::string_view text)
    : set_(set), text_(text) {
  for (size_t k = 0; k < set.starts_.size(); ++k) next_of_start_[k] = set.starts_[k].find(text, 0);
}

size_t LongestMatch::Search::next_start(size_t from) {
  if (set_.starts_.empty()) {
    while (from < text_.size() &&
           set_.first_of_[byte_at(text_, from)] == set_.first_of_[byte_at(text_, from) + size_t{1}])
      ++from;
    return from < text_.size() ? from : text_.npos;
  }
  size_t next = text_.npos;
  for (size_t k = 0; k < set_.starts_.size(); ++k) {
    size_t& place = next_of_start_[k];
    if (place < from) place = set_.starts_[k].find(text_, from);
    next = std::min(next, place);
  }
  return next;
}

std::optional<LongestMatch::Match> LongestMatch::Search::next() {
  for (;; ++at_) {
    if (at_ < text_.size()) at_ = next_start(at_);
    if (at_ >= text_.size()) return std::nullopt;
    if (const auto match = set_.longest_at(text_, at_)) {
      at_ = match->end;
      return match;
    }
  }
}

}  // namespace weft
