#include "preprocess/web/fetch_plan.h"

#include <algorithm>

namespace weft {

FetchPlan::FetchPlan(const std::vector<ByteRange>& missing) {
  for (const ByteRange& range : missing) free_[range.begin] = range.end;
}

void FetchPlan::set_size(int64_t size_bytes) {
  free_.erase(free_.lower_bound(size_bytes), free_.end());
  if (!free_.empty()) {
    int64_t& end = free_.rbegin()->second;
    end = std::min(end, size_bytes);
  }
  for (auto& [id, range] : taken_) range.end = std::clamp(size_bytes, range.begin, range.end);
}

std::optional<int> FetchPlan::take(int64_t max_bytes, int64_t window_end) {
  if (free_.empty()) return std::nullopt;
  const auto [begin, end] = *free_.begin();
  const int64_t cut = end - begin > max_bytes ? begin + max_bytes : end;
  if (cut > window_end) return std::nullopt;
  free_.erase(free_.begin());
  if (cut < end) free_[cut] = end;
  taken_[next_id_] = {begin, cut};
  return next_id_++;
}

void FetchPlan::give_back(int id) {
  const ByteRange range = taken_.at(id);
  taken_.erase(id);
  if (range.begin < range.end) free_[range.begin] = range.end;
}

int FetchPlan::take_rest_as_one(int64_t size_bytes) {
  const int64_t begin = std::min(first_missing(), size_bytes);
  free_.clear();
  taken_.clear();
  taken_[next_id_] = {begin, size_bytes};
  return next_id_++;
}

bool FetchPlan::is_complete() const { return first_missing() == kEndless; }

int64_t FetchPlan::first_missing() const {
  int64_t first = free_.empty() ? kEndless : free_.begin()->first;
  for (const auto& [id, range] : taken_) {
    if (range.begin < range.end) first = std::min(first, range.begin);
  }
  return first;
}

std::vector<ByteRange> FetchPlan::missing() const {
  std::map<int64_t, int64_t> all = free_;
  for (const auto& [id, range] : taken_) {
    if (range.begin < range.end) all[range.begin] = range.end;
  }
  std::vector<ByteRange> joined;
  for (const auto& [begin, end] : all) {
    if (!joined.empty() && joined.back().end == begin) {
      joined.back().end = end;
    } else {
      joined.push_back({begin, end});
    }
  }
  return joined;
}

int64_t FetchPlan::num_bytes_held(int64_t size_bytes) const {
  int64_t held = size_bytes;
  for (const ByteRange& range : missing()) {
    held -= std::min(range.end, size_bytes) - std::min(range.begin, size_bytes);
  }
  return held;
}

}  // namespace weft
