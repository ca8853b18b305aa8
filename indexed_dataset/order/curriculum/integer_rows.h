// Rows of integers in the files of DeepSpeed's data analyzer, which are its variant of the mmap
// format (drawn in pair/writer.h): PREFIX.bin holds the integers of all rows, back to back, and
// PREFIX.idx the lengths of the rows and where they begin.
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

namespace weft {

// Maps the two files. Thread-safe after construction.
class IntegerRows {
 public:
  // Checks every row of the index. Throws std::runtime_error for files that are none of this
  // format, or hold floating-point numbers; std::system_error if one cannot be opened.
  explicit IntegerRows(const std::filesystem::path& prefix);

  int64_t num_rows() const { return num_rows_; }
  int64_t num_values() const { return num_values_; }  // of all rows
  // Returns the number of values in the rows before this one; `row` may be num_rows().
  int64_t row_begin(int64_t row) const;
  // Returns value `idx` of all rows, one after the other. Numbers above 2^63 - 1 come out negative.
  int64_t value(int64_t idx) const;
  const std::filesystem::path& prefix() const { return prefix_; }

 private:
  enum class Type { kU8, kI8, kI16, kI32, kI64, kU16, kU32, kU64 };
  void parse_header();
  void check_rows();

  std::filesystem::path prefix_;
  MappedFile idx_, bin_;
  const std::byte* offsets_ = nullptr;
  int64_t num_rows_ = 0, num_values_ = 0, value_bytes_ = 1;
  Type type_ = Type::kU8;
  uint8_t code_ = 0;
};

// Writes rows in the smallest type that holds all values, with today's codes, as DeepSpeed does.
// Row i ends before value row_ends[i] of all; without row_ends each value is a row. Complete or
// absent: the .idx is removed first and renamed into place last. Throws std::system_error;
// std::runtime_error for a row of 2^31 values or more, which the format cannot hold.
void write_integer_rows(const std::filesystem::path& prefix, std::span<const int64_t> values,
                        std::span<const int64_t> row_ends = {});

}  // namespace weft
