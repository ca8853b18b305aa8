// The ranges of documents, sequences or bytes of one part that a merge leaves out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace weft {

class DroppedRanges {
 public:
  // Ranges must come in order, and not overlap; one that follows the last one is joined to it.
  void add(int64_t begin, int64_t end) {
    if (begin == end) return;
    if (!ranges_.empty() && ranges_.back().end == begin) {
      ranges_.back().end = end;
    } else {
      ranges_.push_back({begin, end, count_});
    }
    count_ += end - begin;
  }
  int64_t count() const { return count_; }  // of all that is left out

  // Calls use(kept_begin, kept_end, num_dropped_before) for what stays of [begin, end), in order.
  template <typename Use>
  void for_each_kept(int64_t begin, int64_t end, const Use& use) const {
    auto next = std::upper_bound(ranges_.begin(), ranges_.end(), begin,
                                 [](int64_t at, const Range& range) { return at < range.end; });
    int64_t num_before = next == ranges_.end() ? count_ : next->num_before;
    for (; next != ranges_.end() && next->begin < end; ++next) {
      if (begin < next->begin) use(begin, next->begin, next->num_before);
      begin = next->end;
      num_before = next->num_before + (next->end - next->begin);
    }
    if (begin < end) use(begin, end, num_before);
  }

 private:
  struct Range {
    int64_t begin, end, num_before;
  };
  std::vector<Range> ranges_;
  int64_t count_ = 0;
};

}  // namespace weft
