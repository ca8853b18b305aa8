#include "preprocess/columnar/plugin/group_rows.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace weft {

GroupPlaces::GroupPlaces(const std::vector<int64_t>& group_begins, int64_t file_bytes)
    : num_groups_(static_cast<int>(group_begins.size())), file_bytes_(file_bytes) {
  for (int group = 1; group < num_groups_; ++group) {
    const int64_t begin = group_begins[static_cast<size_t>(group)];
    if (begin <= part_begins_.back() || begin >= file_bytes) continue;
    part_begins_.push_back(begin);
    first_groups_.push_back(group);
  }
}

GroupPlaces::GroupPlaces(int64_t file_bytes)
    : num_groups_(std::numeric_limits<int>::max()), file_bytes_(file_bytes) {}

int GroupPlaces::group_at(int64_t begin) const {
  if (begin >= file_bytes_) return num_groups_;
  const auto found = std::lower_bound(part_begins_.begin(), part_begins_.end(), begin);
  if (found == part_begins_.end() || *found != begin)
    throw std::logic_error("no part of the table begins at " + std::to_string(begin));
  return first_groups_[static_cast<size_t>(found - part_begins_.begin())];
}

int64_t GroupPlaces::begin_of(int group) const {
  if (group >= num_groups_) return file_bytes_;
  const auto after = std::upper_bound(first_groups_.begin(), first_groups_.end(), group);
  return part_begins_[static_cast<size_t>(after - first_groups_.begin()) - 1];
}

GroupRows::GroupRows(const GroupPlaces& places, int64_t begin, int64_t end, int64_t num_rows_passed,
                     const RowRequest& request)
    : places_(places),
      request_(request),
      begin_(begin),
      group_(places.group_at(begin) - 1),
      end_group_(places.group_at(end)),
      num_rows_passed_(num_rows_passed) {}

bool GroupRows::open_next_group() {
  if (group_ + 1 >= end_group_) {
    group_ = end_group_;
    num_rows_ = num_read_ = 0;
    return false;
  }
  ++group_;
  num_read_ = 0;
  num_rows_ = open_group(group_);
  if (num_rows_ < 0) {
    group_ = end_group_;
    num_rows_ = 0;
    return false;
  }
  num_read_ = std::min(num_rows_passed_, num_rows_);
  if (num_read_ > 0 && num_read_ < num_rows_) skip_rows(num_read_);
  num_rows_passed_ -= num_read_;
  next_row_ += num_read_;
  return true;
}

bool GroupRows::next(RowChunk& chunk) {
  chunk.clear();
  chunk.num_columns = num_columns_;
  chunk.bytes.reserve(request_.chunk_bytes + request_.chunk_bytes / 8);  // else it grows to twice
  const auto is_full = [&] {
    return chunk.bytes.size() + chunk.values.size() * sizeof(RowChunk::Value) >=
           request_.chunk_bytes;
  };
  while (!is_full()) {
    if (num_read_ == num_rows_) {
      if (!open_next_group()) break;
      continue;
    }
    if (chunk.values.empty()) chunk.first_row = next_row_;
    add_row(chunk);
    ++num_read_;
    ++next_row_;
  }
  return !chunk.values.empty();
}

int64_t GroupRows::num_bytes_passed() const {
  if (group_ < 0 || places_.begin_of(group_) < begin_) return 0;
  const int64_t at = places_.begin_of(group_);
  const double share =
      num_rows_ > 0 ? static_cast<double>(num_read_) / static_cast<double>(num_rows_) : 0;
  const auto of_group = static_cast<double>(places_.begin_of(group_ + 1) - at) * share;
  return at - begin_ + static_cast<int64_t>(of_group);
}

}  // namespace weft
