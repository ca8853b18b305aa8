#include "indexed_dataset/base/storage/npy_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/io_call.h"

namespace weft {

using namespace io_call;

namespace {

constexpr std::string_view kMagic{"\x93NUMPY\x01\x00", 8};
constexpr size_t kHeaderAt = 10, kAlignment = 64;

std::string header_text(const std::string& type, const std::vector<int64_t>& shape) {
  std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]) + (shape.size() == 1 ? "," : "");
  text += "), }";
  // NumPy leaves room for the array to grow to a number of 20 digits; so do its files of ours.
  constexpr size_t kGrowthDigits = 21;
  if (!shape.empty()) text.append(kGrowthDigits - std::to_string(shape[0]).size(), ' ');
  const size_t unpadded = kHeaderAt + text.size() + 1;
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  return text + "\n";
}

[[noreturn]] void throw_bad(const std::filesystem::path& path, const std::string& what) {
  throw std::runtime_error(path.string() + ": not an array that is known here: " + what);
}

// The text between two marks of the header.
std::string_view between(std::string_view text, std::string_view begin, std::string_view end,
                         const std::filesystem::path& path) {
  const size_t at = text.find(begin);
  const size_t to = at == std::string_view::npos ? at : text.find(end, at + begin.size());
  if (to == std::string_view::npos) throw_bad(path, "its header has no " + std::string(begin));
  return text.substr(at + begin.size(), to - at - begin.size());
}

std::vector<int64_t> parse_shape(std::string_view text, const std::filesystem::path& path) {
  std::vector<int64_t> shape;
  while (!text.empty()) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 0) throw_bad(path, "its shape is no list of numbers");
    shape.push_back(size);
    const size_t rest = text.find_first_not_of(", ", static_cast<size_t>(end - text.data()));
    text = rest == std::string_view::npos ? std::string_view() : text.substr(rest);
  }
  return shape;
}

}  // namespace

std::filesystem::path write_npy_bytes(const std::filesystem::path& path, const std::string& type,
                                      const std::vector<int64_t>& shape, const void* data,
                                      size_t size_bytes) {
  const std::string header = header_text(type, shape);
  const auto header_bytes = static_cast<uint16_t>(header.size());
  std::filesystem::path part = path.string() + ".part";
  OutputFile file(part);
  file.append(kMagic.data(), kMagic.size());
  file.append(&header_bytes, sizeof header_bytes);
  file.append(header.data(), header.size());
  file.append(data, size_bytes);
  file.close();
  return part;
}

void commit_part(const std::filesystem::path& part, const std::filesystem::path& path) {
  sync_files({part}, 1);
  commit_rename(part, path);
}

void remove_part(const std::filesystem::path& path) noexcept {
  std::error_code ignored;
  std::filesystem::remove(path.string() + ".part", ignored);
}

void NpyArray::throw_other_type(const std::string& wanted) const {
  throw_bad(path_, "it holds numbers of the type " + type_ + " and not " + wanted);
}

NpyArray::NpyArray(const std::filesystem::path& path) : path_(path), file_(path) {
  const std::span<const std::byte> bytes = file_.bytes();
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!all.starts_with(kMagic) || all.size() < kHeaderAt) throw_bad(path, "it does not begin so");
  uint16_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data() + kMagic.size(), sizeof header_bytes);
  const size_t data_at = kHeaderAt + header_bytes;
  if (data_at > all.size() || data_at % sizeof(int64_t) != 0)
    throw_bad(path, "its header ends nowhere");
  const std::string_view header = all.substr(kHeaderAt, header_bytes);
  type_ = between(header, "'descr': '", "'", path);
  if (between(header, "'fortran_order': ", ",", path) != "False")
    throw_bad(path, "its columns come first");
  shape_ = parse_shape(between(header, "'shape': (", ")", path), path);
  int64_t size_bytes = type_ == "<i2" ? 2 : type_ == "<i8" ? 8 : 4;
  for (const int64_t size : shape_) {
    if (__builtin_mul_overflow(size_bytes, size, &size_bytes)) throw_bad(path, "it is too large");
  }
  data_ = bytes.subspan(data_at);
  if (static_cast<int64_t>(data_.size()) != size_bytes)
    throw_bad(path, "its header and its size disagree");
}

void rename_unsynced(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (is_made_to_fail() || ::rename(from.c_str(), to.c_str()) != 0)
    throw_errno("cannot rename " + quoted(from) + " to " + quoted(to));
}

void sync_files(const std::vector<std::filesystem::path>& files, int num_threads) {
  parallel_for(std::ssize(files), num_threads, [&](int64_t i) {
    const std::filesystem::path& path = files[static_cast<size_t>(i)];
    // A descriptor that is opened later still gets an error of writing that no other call had.
    const FdGuard guard{open_file(path, O_RDONLY | O_NOFOLLOW)};
    if (is_made_to_fail() || ::fdatasync(guard.fd) != 0) throw_errno("cannot sync " + quoted(path));
  });
}

}  // namespace weft
