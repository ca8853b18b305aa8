// Finds strings of a set in a text: where one begins first, and there the longest. It is made for a
// few hundred strings that are rare in the text, as added tokens are: the text between them is
// passed at the speed of memory.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Immutable and thread-safe.
class LongestMatch {
 public:
  struct Match {
    size_t begin, end;  // in the text
    size_t string_idx;  // in the list that the constructor got
  };

  // None of `strings` may be empty. Of equal ones the first counts.
  explicit LongestMatch(const std::vector<std::string>& strings);

  bool empty() const { return strings_.empty(); }

  // Goes through one text. Both must outlive it.
  class Search {
   public:
    Search(const LongestMatch& set, std::string_view text);
    // The next match, which begins behind the end of the one before.
    std::optional<Match> next();

   private:
    size_t next_start(size_t from);

    const LongestMatch& set_;
    std::string_view text_;
    size_t at_ = 0;
    std::array<size_t, 4> next_of_start_{};  // by start: where it comes next, from at_ on
  };

 private:
  // All strings that begin with `first` go on with `second`, or with various bytes if that is -1.
  struct Start {
    char first;
    int second;

    size_t find(std::string_view text, size_t from) const;
  };
  // More first bytes than this are found by a table.
  static constexpr size_t kMaxStarts = 4;

  std::optional<Match> longest_at(std::string_view text, size_t begin) const;

  std::vector<std::string> strings_;    // sorted
  std::vector<size_t> idx_of_;          // of each sorted string, in the caller's list
  std::array<size_t, 257> first_of_{};  // by first byte: where its strings begin in strings_
  std::vector<Start> starts_;           // empty if there are more than kMaxStarts
};

}  // namespace weft
