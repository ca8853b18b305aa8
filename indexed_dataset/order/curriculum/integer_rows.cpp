#include "indexed_dataset/order/curriculum/integer_rows.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/pair/index_view.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

fs::path with_suffix(const fs::path& prefix, const char* suffix) {
  return prefix.string() + suffix;
}

// The smallest type of these values, by its code today [data_sampling/utils.py,
// find_fit_int_dtype].
struct WrittenType {
  uint8_t code;
  int64_t size_bytes;
};
WrittenType type_for(int64_t min, int64_t max) {
  const auto fits = [&](int64_t low, int64_t high) { return min >= low && max <= high; };
  if (fits(0, UINT8_MAX)) return {1, 1};
  if (fits(0, UINT16_MAX)) return {6, 2};
  if (fits(0, UINT32_MAX)) return {7, 4};
  if (min >= 0) return {8, 8};
  if (fits(INT8_MIN, INT8_MAX)) return {2, 1};
  if (fits(INT16_MIN, INT16_MAX)) return {3, 2};
  if (fits(INT32_MIN, INT32_MAX)) return {4, 4};
  return {5, 8};
}

// Gathers small numbers into large writes.
class NumberFile {
 public:
  explicit NumberFile(const fs::path& path) : file_(path) {}
  // The lowest bytes of a number.
  void append(int64_t value, int64_t size_bytes) {
    append({reinterpret_cast<const char*>(&value), static_cast<size_t>(size_bytes)});
  }
  void append(std::string_view bytes) {
    buffer_ += bytes;
    if (buffer_.size() >= kBufferBytes) flush();
  }
  void finish() {
    flush();
    file_.sync();
    file_.close();
  }

 private:
  static constexpr size_t kBufferBytes = 1 << 20;
  void flush() {
    file_.append(buffer_.data(), buffer_.size());
    buffer_.clear();
  }
  OutputFile file_;
  std::string buffer_;
};

template <typename T>
int64_t read_number(const std::byte* at) {
  return static_cast<int64_t>(load_number<T>(at));
}

// Without `ends` each value is a row.
int64_t row_length(std::span<const int64_t> ends, size_t row) {
  if (ends.empty()) return 1;
  return row == 0 ? ends[0] : ends[row] - ends[row - 1];
}

}  // namespace

IntegerRows::IntegerRows(const fs::path& prefix)
    : prefix_(prefix), idx_(with_suffix(prefix, ".idx")), bin_(with_suffix(prefix, ".bin")) {
  try {
    index_ = parse_layout(idx_.bytes(), idx_path());
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(std::string(error.what()) +
                             "; give the prefix of an index of DeepSpeed's data analyzer, or of "
                             "weft-data analyze, without .idx");
  }
  check_rows();
}

void IntegerRows::check_rows() {
  const auto bin_bytes = static_cast<int64_t>(bin_.bytes().size());
  for (int64_t row = 0; row < num_rows(); ++row) {
    if (index_.length(row) < 0)
      throw std::runtime_error(idx_path() + ": row " + std::to_string(row) +
                               " has a negative length");
    num_values_ += index_.length(row);
  }
  if (num_values_ > 0) value_bytes_ = bin_bytes / num_values_;
  struct Known {
    uint8_t code;
    int64_t size_bytes;
    ReadNumber read;
  };
  static constexpr Known kTypes[] = {
      {1, 1, read_number<uint8_t>},  {2, 1, read_number<int8_t>},   {3, 2, read_number<int16_t>},
      {4, 4, read_number<int32_t>},  {5, 8, read_number<int64_t>},  {6, 2, read_number<uint16_t>},
      {7, 4, read_number<uint32_t>}, {8, 8, read_number<uint64_t>}, {8, 2, read_number<uint16_t>},
      {9, 4, read_number<uint32_t>}, {10, 8, read_number<uint64_t>}};
  const auto known = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Known& one) {
    return one.code == index_.type_code && (num_values_ == 0 || one.size_bytes == value_bytes_);
  });
  if (value_bytes_ * num_values_ != bin_bytes || known == std::end(kTypes)) {
    throw std::runtime_error(
        prefix_.string() + ".bin: its " + std::to_string(bin_bytes) + " bytes are no " +
        std::to_string(num_values_) + " integers of the type with code " +
        std::to_string(index_.type_code) +
        ": it is damaged, or holds floating-point numbers, which DeepSpeed does not take either");
  }
  read_ = known->read;
  value_bytes_ = known->size_bytes;
  int64_t offset_bytes = 0;
  for (int64_t row = 0; row < num_rows(); ++row) {
    if (index_.offset_bytes(row) != offset_bytes)
      throw std::runtime_error(idx_path() + ": row " + std::to_string(row) +
                               " does not begin where the one before it ends");
    offset_bytes += index_.length(row) * value_bytes_;
  }
}

int64_t IntegerRows::row_begin(int64_t row) const {
  if (row >= num_rows()) return num_values_;
  return index_.offset_bytes(row) / value_bytes_;
}

void write_integer_rows(const fs::path& prefix, std::span<const int64_t> values,
                        std::span<const int64_t> row_ends) {
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  const WrittenType type = values.empty() ? type_for(0, 0) : type_for(*min, *max);
  const size_t num_rows = row_ends.empty() ? values.size() : row_ends.size();
  for (size_t row = 0; row < num_rows; ++row) {
    if (row_length(row_ends, row) <= std::numeric_limits<int32_t>::max()) continue;
    throw std::runtime_error(prefix.string() + ": row " + std::to_string(row) + " has " +
                             std::to_string(row_length(row_ends, row)) +
                             " samples of one value, and the format has room for 2^31 - 1: take a "
                             "metric with more distinct values");
  }
  const fs::path idx = with_suffix(prefix, ".idx"), bin = with_suffix(prefix, ".bin");
  const fs::path idx_part = idx.string() + ".part", bin_part = bin.string() + ".part";
  NumberFile bin_file(bin_part);
  for (const int64_t value : values) bin_file.append(value, type.size_bytes);
  bin_file.finish();

  NumberFile idx_file(idx_part);
  idx_file.append(kIndexMagic);
  idx_file.append(kIndexVersion, 8);
  idx_file.append(type.code, 1);
  idx_file.append(static_cast<int64_t>(num_rows), 8);
  idx_file.append(2, 8);
  for (size_t row = 0; row < num_rows; ++row) idx_file.append(row_length(row_ends, row), 4);
  int64_t offset_bytes = 0;
  for (size_t row = 0; row < num_rows; ++row) {
    idx_file.append(offset_bytes, 8);
    offset_bytes += row_length(row_ends, row) * type.size_bytes;
  }
  idx_file.append(0, 8);  // DeepSpeed ends one document, which holds all rows
  idx_file.append(static_cast<int64_t>(num_rows), 8);
  idx_file.finish();
  remove_file(idx);
  commit_rename(bin_part, bin);
  commit_rename(idx_part, idx);
}

}  // namespace weft
