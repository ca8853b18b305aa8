// Parquet and Arrow have groups of rows in common (row groups, record batches), which are read one
// after another, and whose rows go into chunks.
#pragma once

#include <cstdint>
#include <vector>

#include "preprocess/columnar/table.h"

namespace weft {

// Where the groups of a table lie in its file.
class GroupPlaces {
 public:
  // Begins that do not ascend, as a hostile file may say, make one part with the group before.
  GroupPlaces(const std::vector<int64_t>& group_begins, int64_t file_bytes);
  // A stream: one part of an unknown number of groups.
  explicit GroupPlaces(int64_t file_bytes);

  const std::vector<int64_t>& part_begins() const { return part_begins_; }
  // The first group of the part that begins there; their number for the file's end. Throws
  // std::logic_error if no part begins there.
  int group_at(int64_t begin) const;
  int num_groups() const { return num_groups_; }
  // Where a group lies, about: within its part they lie together.
  int64_t begin_of(int group) const;

 private:
  std::vector<int64_t> part_begins_{0};
  std::vector<int> first_groups_{0};  // by part
  int num_groups_;
  int64_t file_bytes_;
};

class GroupRows : public RowSource {
 public:
  bool next(RowChunk& chunk) override;
  int64_t num_bytes_passed() const final;

 protected:
  GroupRows(const GroupPlaces& places, int64_t begin, int64_t end, int64_t num_rows_passed,
            const RowRequest& request);

  const RowRequest& request() const { return request_; }
  // Goes to a group and returns its number of rows; -1 if there is none, which a stream says only
  // then.
  virtual int64_t open_group(int group) = 0;
  // Passes over rows of the group.
  virtual void skip_rows(int64_t num_rows) = 0;
  // Adds the values of the next row.
  virtual void add_row(RowChunk& chunk) = 0;
  size_t num_columns_ = 0;

 private:
  bool open_next_group();

  const GroupPlaces& places_;
  const RowRequest request_;
  const int64_t begin_;
  int group_, end_group_;
  int64_t num_rows_passed_;              // yet to be
  int64_t next_row_ = 0;                 // from the part's begin
  int64_t num_rows_ = 0, num_read_ = 0;  // of the group that is open
};

}  // namespace weft
