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

// Without `ends` each value is a row.
int64_t row_length(std::span<const int64_t> ends, size_t row) {
  if (ends.empty()) return 1;
  return row == 0 ? ends[0] : ends[row] - ends[row - 1];
}

}  // namespace

IntegerRows::IntegerRows(const fs::path& prefix)
    : prefix_(prefix), idx_(with_suffix(prefix, ".idx")), bin_(with_suffix(prefix, ".bin")) {
  parse_header();
  check_rows();
}

void IntegerRows::parse_header() {
  const std::span<const std::byte> idx = idx_.bytes();
  const auto fail = [&](const std::string& what) {
    throw std::runtime_error(prefix_.string() + ".idx: " + what +
                             "; give the prefix of an index of DeepSpeed's data analyzer, or of "
                             "weft-data analyze, without .idx");
  };
  const std::string_view text(reinterpret_cast<const char*>(idx.data()), idx.size());
  if (text.size() < kIndexHeaderBytes || !text.starts_with(kIndexMagic) ||
      load_number<uint64_t>(idx.data() + 9) != kIndexVersion)
    fail("not an index of this format");
  code_ = load_number<uint8_t>(idx.data() + 17);
  const auto num_rows = load_number<uint64_t>(idx.data() + 18);
  const auto num_bounds = load_number<uint64_t>(idx.data() + 26);
  const uint64_t room = idx.size() - kIndexHeaderBytes;
  if (num_rows > room / 12 || num_bounds > room / 8 || num_rows * 12 + num_bounds * 8 != room)
    fail("its header says " + std::to_string(num_rows) + " rows and " + std::to_string(num_bounds) +
         " bounds, which do not fit its size");
  num_rows_ = static_cast<int64_t>(num_rows);
  offsets_ = idx.data() + kIndexHeaderBytes + 4 * num_rows_;
}

void IntegerRows::check_rows() {
  const std::byte* lengths = idx_.bytes().data() + kIndexHeaderBytes;
  const auto length = [&](int64_t row) { return load_number<int32_t>(lengths + 4 * row); };
  const auto bin_bytes = static_cast<int64_t>(bin_.bytes().size());
  for (int64_t row = 0; row < num_rows_; ++row) {
    if (length(row) < 0)
      throw std::runtime_error(prefix_.string() + ".idx: row " + std::to_string(row) +
                               " has a negative length");
    num_values_ += length(row);
  }
  if (num_values_ > 0) value_bytes_ = bin_bytes / num_values_;
  struct Known {
    uint8_t code;
    int64_t size_bytes;
    Type type;
  };
  static constexpr Known kTypes[] = {{1, 1, Type::kU8},  {2, 1, Type::kI8},  {3, 2, Type::kI16},
                                     {4, 4, Type::kI32}, {5, 8, Type::kI64}, {6, 2, Type::kU16},
                                     {7, 4, Type::kU32}, {8, 8, Type::kU64}, {8, 2, Type::kU16},
                                     {9, 4, Type::kU32}, {10, 8, Type::kU64}};
  const auto known = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Known& one) {
    return one.code == code_ && (num_values_ == 0 || one.size_bytes == value_bytes_);
  });
  if (value_bytes_ * num_values_ != bin_bytes || known == std::end(kTypes)) {
    throw std::runtime_error(
        prefix_.string() + ".bin: its " + std::to_string(bin_bytes) + " bytes are no " +
        std::to_string(num_values_) + " integers of the type with code " + std::to_string(code_) +
        ": it is damaged, or holds floating-point numbers, which DeepSpeed does not take either");
  }
  type_ = known->type;
  value_bytes_ = known->size_bytes;
  int64_t offset_bytes = 0;
  for (int64_t row = 0; row < num_rows_; ++row) {
    if (load_number<int64_t>(offsets_ + 8 * row) != offset_bytes)
      throw std::runtime_error(prefix_.string() + ".idx: row " + std::to_string(row) +
                               " does not begin where the one before it ends");
    offset_bytes += length(row) * value_bytes_;
  }
}

int64_t IntegerRows::row_begin(int64_t row) const {
  if (row >= num_rows_) return num_values_;
  return load_number<int64_t>(offsets_ + 8 * row) / value_bytes_;
}

int64_t IntegerRows::value(int64_t idx) const {
  const std::byte* at = bin_.bytes().data() + idx * value_bytes_;
  switch (type_) {
    case Type::kU8:
      return load_number<uint8_t>(at);
    case Type::kI8:
      return load_number<int8_t>(at);
    case Type::kI16:
      return load_number<int16_t>(at);
    case Type::kI32:
      return load_number<int32_t>(at);
    case Type::kU16:
      return load_number<uint16_t>(at);
    case Type::kU32:
      return load_number<uint32_t>(at);
    case Type::kI64:
    case Type::kU64:
      return load_number<int64_t>(at);
  }
  return 0;
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
