// Rows of integers in the files of DeepSpeed's data analyzer, which are its variant of the mmap
// format (drawn in pair/shared_pair_writer.h): PREFIX.bin holds the integers of all rows, back to
// back, and PREFIX.idx the lengths of the rows and where they begin.
// [DeepSpeed runtime/data_pipeline/data_sampling/indexed_dataset.py]
//
// Types have other codes than in files of tokens, and those of DeepSpeed have changed:
//
//   code      1   2   3    4    5    6    7    8    9    10
//   tokens    u8  i8  i16  i32  i64  f64  f32  u16
//   0.8, 0.9  u8  i8  i16  i32  i64  f64  f64  u16  u32  u64
//   today     u8  i8  i16  i32  i64  u16  u32  u64
//
// The size of an integer tells them apart, which follows from the lengths and offsets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "indexed_dataset/base/storage/whole_files.h"
#include "indexed_dataset/format/pair/index_view.h"

namespace weft {

// Maps the two files. Thread-safe after construction.
class IntegerRows {
 public:
  // Checks every row of the index. Throws std::runtime_error for files that are none of this
  // format, or hold floating-point numbers; std::system_error if one cannot be opened.
  explicit IntegerRows(const std::filesystem::path& prefix);

  int64_t num_rows() const { return index_.num_sequences; }
  int64_t num_values() const { return num_values_; }  // of all rows
  // Returns the number of values in the rows before this one; `row` may be num_rows().
  int64_t row_begin(int64_t row) const;
  // Returns value `idx` of all rows, one after the other. Numbers above 2^63 - 1 come out negative.
  int64_t value(int64_t idx) const { return read_(bin_.bytes().data() + idx * value_bytes_); }
  const std::filesystem::path& prefix() const { return prefix_; }

 private:
  using ReadNumber = int64_t (*)(const std::byte*);
  void check_rows();
  std::string idx_path() const { return prefix_.string() + ".idx"; }

  std::filesystem::path prefix_;
  MappedFile idx_, bin_;
  IndexView index_;
  int64_t num_values_ = 0, value_bytes_ = 1;
  ReadNumber read_ = nullptr;
};

// Writes rows in the smallest type that holds all values, with today's codes, as DeepSpeed does.
// Row i ends before value row_ends[i] of all; without row_ends each value is a row. Complete or
// absent: the .idx is removed first and renamed into place last. Throws std::system_error;
// std::runtime_error for a row of 2^31 values or more, which the format cannot hold.
void write_integer_rows(const std::filesystem::path& prefix, std::span<const int64_t> values,
                        std::span<const int64_t> row_ends = {});

}  // namespace weft
