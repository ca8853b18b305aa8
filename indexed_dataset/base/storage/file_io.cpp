#include "indexed_dataset/base/storage/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "indexed_dataset/base/storage/io_call.h"

namespace weft {
namespace {

using namespace io_call;

// A full disk: how full, for people.
std::string free_space_text(int fd) {
  const int error_number = errno;
  struct statvfs status {};
  std::string text;
  if ((error_number == ENOSPC || error_number == EDQUOT) && ::fstatvfs(fd, &status) == 0) {
    text = " (its file system has " + std::to_string(status.f_bavail * status.f_frsize) +
           " bytes free)";
  }
  errno = error_number;
  return text;
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path, bool keep) : path_(std::move(path)) {
  fd_ = open_file(path_, O_WRONLY | O_CREAT | O_NOFOLLOW | (keep ? 0 : O_TRUNC));
  if (!keep) return;
  try {
    size_bytes_ = size_of(fd_, path_);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

OutputFile OutputFile::existing(std::filesystem::path path) {
  OutputFile file;
  file.path_ = std::move(path);
  file.fd_ = open_file(file.path_, O_WRONLY | O_NOFOLLOW);
  file.size_bytes_ = size_of(file.fd_, file.path_);
  return file;
}

OutputFile OutputFile::create_part(const std::filesystem::path& final_path, bool is_private) {
  OutputFile file;
  for (std::random_device random;;) {
    std::array<char, kPartNameBytes + 1> ending{};
    std::snprintf(ending.data(), ending.size(), ".%08x.part", random());
    file.path_ = final_path.string() + ending.data();
    try {
      file.fd_ =
          open_file(file.path_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, is_private ? 0600 : 0666);
      return file;
    } catch (const std::system_error& error) {
      if (error.code() != std::errc::file_exists) throw;
    }
  }
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      written_out_bytes_(std::exchange(other.written_out_bytes_, 0)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(written_out_bytes_, other.written_out_bytes_);
  return *this;
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::append(const void* data, size_t size_bytes) {
  write_at(data, size_bytes, size_bytes_);
}

void OutputFile::write_at(const void* data, size_t size_bytes, int64_t offset_bytes) {
  const char* rest = static_cast<const char*>(data);
  while (size_bytes > 0) {
    const bool fails = is_made_to_fail();
    const ssize_t written = fails ? -1
                            : is_made_to_lose_page()
                                ? static_cast<ssize_t>(std::min<size_t>(size_bytes, 4096))
                                : ::pwrite(fd_, rest, size_bytes, offset_bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      throw_errno("cannot write " + std::to_string(size_bytes) + " bytes at offset " +
                  std::to_string(offset_bytes) + " of " + quoted(path_) + free_space_text(fd_));
    }
    rest += written;
    size_bytes -= static_cast<size_t>(written);
    offset_bytes += written;
    note_end(offset_bytes);
  }
}

void OutputFile::note_end(int64_t end_bytes) {
  std::atomic_ref<int64_t> known_size(size_bytes_);
  int64_t known = known_size;
  while (known < end_bytes && !known_size.compare_exchange_weak(known, end_bytes)) {
  }
}

void OutputFile::preallocate(int64_t offset_bytes, int64_t size_bytes) {
  // On a disk that is nearly full the space may be what another file needs.
  struct statvfs status {};
  if (::fstatvfs(fd_, &status) != 0) return;
  const auto free_bytes =
      static_cast<double>(status.f_bavail) * static_cast<double>(status.f_frsize);
  if (free_bytes < 16 * static_cast<double>(size_bytes)) return;
  (void)::fallocate(fd_, FALLOC_FL_KEEP_SIZE, offset_bytes, size_bytes);
}

void OutputFile::truncate(int64_t size_bytes) {
  if (is_made_to_fail() || ::ftruncate(fd_, size_bytes) != 0) {
    throw_errno("cannot truncate " + quoted(path_) + " to " + std::to_string(size_bytes) +
                " bytes");
  }
  size_bytes_ = size_bytes;
}

void OutputFile::bound_unwritten(int64_t max_bytes) {
  const auto call = [this](int64_t end_bytes, unsigned flags) {
    if (!is_made_to_fail() &&
        ::sync_file_range(fd_, written_out_bytes_, end_bytes - written_out_bytes_, flags) == 0) {
      return;
    }
    // sync() would not hear of these a second time.
    if (errno == EIO || errno == ENOSPC || errno == EDQUOT)
      throw_errno("cannot write out " + quoted(path_) + free_space_text(fd_));
  };
  call(size_bytes_, SYNC_FILE_RANGE_WRITE);
  const int64_t end_bytes = size_bytes_ - max_bytes;
  if (end_bytes <= written_out_bytes_) return;
  call(end_bytes, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  written_out_bytes_ = end_bytes;
}

void OutputFile::sync() {
  if (is_made_to_fail() || ::fdatasync(fd_) != 0) throw_errno("cannot sync " + quoted(path_));
}

void OutputFile::close() {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0) return;
  const bool fails = is_made_to_fail();
  const int error_number = errno;
  // EINTR: Linux has released the descriptor all the same; closing again could hit another file.
  const bool closed = ::close(fd) == 0 || errno == EINTR;
  if (fails) errno = error_number;
  if (fails || !closed) throw_errno("cannot close " + quoted(path_));
}

InputFile::InputFile(std::filesystem::path path, Links links) : path_(std::move(path)) {
  fd_ = open_file(path_, O_RDONLY | (links == Links::kRefuse ? O_NOFOLLOW : 0));
  try {
    size_bytes_ = size_of(fd_, path_);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      has_zeros_behind_end_(other.has_zeros_behind_end_) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(has_zeros_behind_end_, other.has_zeros_behind_end_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void InputFile::read_at(void* data, size_t size_bytes, int64_t offset_bytes) const {
  char* rest = static_cast<char*>(data);
  while (size_bytes > 0) {
    const ssize_t got = is_made_to_fail() ? -1 : ::pread(fd_, rest, size_bytes, offset_bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0 && has_zeros_behind_end_) {
      std::memset(rest, 0, size_bytes);
      return;
    }
    if (got <= 0) {
      const int error_number = errno;  // building the message may change it
      const std::string what = "cannot read " + std::to_string(size_bytes) + " bytes at offset " +
                               std::to_string(offset_bytes) + " of " + quoted(path_);
      if (got == 0) throw std::runtime_error(what + ": the file has become shorter");
      errno = error_number;
      throw_errno(what);
    }
    rest += got;
    size_bytes -= static_cast<size_t>(got);
    offset_bytes += got;
  }
}

void write_synced_file(const std::filesystem::path& path, std::string_view content) {
  OutputFile file(path);
  file.append(content.data(), content.size());
  file.sync();
  file.close();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content,
                           bool is_private) {
  OutputFile file = OutputFile::create_part(path, is_private);
  try {
    file.append(content.data(), content.size());
    file.sync();
    file.close();
    commit_rename(file.path(), path);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(file.path(), ignored);
    throw;
  }
}

}  // namespace weft
