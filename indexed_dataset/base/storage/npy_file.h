// NumPy's .npy files, version 1.0, of one- and two-dimensional arrays of integers
// [numpy/lib/format.py].
//
//   npy := "\x93NUMPY" 1:u8 0:u8 header_bytes:u16 header data
//   header := "{'descr': '<i4', 'fortran_order': False, 'shape': (10,), }", padded with spaces and
//   ended by a newline so that the data begins at a multiple of 64
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "indexed_dataset/base/storage/whole_files.h"

namespace weft {

template <typename T>
constexpr const char* npy_type() {
  if constexpr (std::is_same_v<T, int16_t>) return "<i2";
  if constexpr (std::is_same_v<T, int32_t>) return "<i4";
  if constexpr (std::is_same_v<T, uint32_t>) return "<u4";
  if constexpr (std::is_same_v<T, int64_t>) return "<i8";
}

// Writes `size_bytes` of data as an array of `type` and `shape` to NAME.part, whose name it
// returns. The file is neither synced nor renamed. Throws std::system_error.
std::filesystem::path write_npy_bytes(const std::filesystem::path& path, const std::string& type,
                                      const std::vector<int64_t>& shape, const void* data,
                                      size_t size_bytes);

// Writes rows of `num_columns` values.
template <typename T>
std::filesystem::path write_npy_part(const std::filesystem::path& path, std::span<const T> values,
                                     int64_t num_columns = 1) {
  const auto size = static_cast<int64_t>(values.size());
  std::vector<int64_t> shape{size / num_columns};
  if (num_columns > 1) shape.push_back(num_columns);
  return write_npy_bytes(path, npy_type<T>(), shape, values.data(), values.size_bytes());
}

// Syncs NAME.part and renames it to NAME. Throws std::system_error.
void commit_part(const std::filesystem::path& part, const std::filesystem::path& path);

// Removes NAME.part if it is there.
void remove_part(const std::filesystem::path& path) noexcept;

// Writes a whole array: NAME.part, synced and renamed. Throws std::system_error, and leaves no part
// then.
template <typename T>
void write_npy(const std::filesystem::path& path, std::span<const T> values,
               int64_t num_columns = 1) {
  try {
    commit_part(write_npy_part(path, values, num_columns), path);
  } catch (...) {
    remove_part(path);
    throw;
  }
}

// A mapped array.
class NpyArray {
 public:
  // Throws std::system_error if the file cannot be mapped, std::runtime_error if it is no array
  // that write_npy() could have written.
  explicit NpyArray(const std::filesystem::path& path);

  template <typename T>
  bool holds() const {
    return type_ == npy_type<T>();
  }
  const std::vector<int64_t>& shape() const { return shape_; }
  // All values in the order of the file. Throws std::runtime_error if it holds another type than
  // `T`.
  template <typename T>
  std::span<const T> values() const {
    if (!holds<T>()) throw_other_type(npy_type<T>());
    return {reinterpret_cast<const T*>(data_.data()), data_.size() / sizeof(T)};
  }

 private:
  [[noreturn]] void throw_other_type(const std::string& wanted) const;

  std::filesystem::path path_;
  MappedFile file_;
  std::string type_;
  std::vector<int64_t> shape_;
  std::span<const std::byte> data_;
};

// Arrays that belong together are written without a wait for the disk for each: they are renamed,
// and all are synced before any of them counts.

// Renames `from` to `to`. Other processes see one file or the other, but a power cut may leave a
// new one that is empty. Throws std::system_error.
void rename_unsynced(const std::filesystem::path& from, const std::filesystem::path& to);

// Has the contents of these files, which were written and closed before, survive a power cut.
// Several threads wait for the disk at once, because a file system takes what waits together to the
// disk in one go. Throws std::system_error.
void sync_files(const std::vector<std::filesystem::path>& files, int num_threads);

}  // namespace weft
