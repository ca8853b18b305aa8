#include "indexed_dataset/base/storage/whole_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "indexed_dataset/base/process/crash_point.h"
#include "indexed_dataset/base/storage/bus_error.h"
#include "indexed_dataset/base/storage/free_space.h"
#include "indexed_dataset/base/storage/io_call.h"

namespace weft {
namespace {

using namespace io_call;

bool can_exchange_names() {
#ifdef WEFT_TEST_HOOKS
  return std::getenv("WEFT_NO_EXCHANGE") == nullptr;
#else
  return true;
#endif
}

int open_regular_file(const std::filesystem::path& path, int flags) {
  const int fd = open_file(path, O_RDONLY | O_NONBLOCK | flags);
  struct stat status {};
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) return fd;
  ::close(fd);
  errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
  throw_errno("cannot read " + quoted(path) + ", which is no regular file");
}

// All that is left in a file.
std::string read_all(int fd, const std::filesystem::path& path) {
  std::string content(static_cast<size_t>(size_of(fd, path)), '\0');
  size_t size_bytes = 0;
  for (;;) {  // until end of file: /proc files have a size of 0, others may still grow
    if (size_bytes == content.size()) content.resize(size_bytes + 4096);
    const ssize_t got = is_made_to_fail()
                            ? -1
                            : ::read(fd, content.data() + size_bytes, content.size() - size_bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno("cannot read " + quoted(path));
    if (got == 0) break;
    size_bytes += static_cast<size_t>(got);
  }
  content.resize(size_bytes);
  return content;
}

int flags_of(Links links) { return links == Links::kRefuse ? O_NOFOLLOW : 0; }

}  // namespace

void sync_folder(const std::filesystem::path& folder) {
  const FdGuard guard{open_file(folder, O_RDONLY | O_DIRECTORY)};
  // EINVAL: this file system does not sync folders (some network ones); nothing more can be done.
  if (is_made_to_fail() || (::fsync(guard.fd) != 0 && errno != EINVAL)) {
    throw_errno("cannot sync folder " + quoted(folder));
  }
}

void remove_file(const std::filesystem::path& path) {
  if (is_made_to_fail() || ::unlink(path.c_str()) != 0) {
    if (errno == ENOENT) return;
    throw_errno("cannot remove " + quoted(path));
  }
  sync_folder(folder_of(path));
}

void commit_rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (is_made_to_fail() || ::rename(from.c_str(), to.c_str()) != 0) {
    throw_errno("cannot rename " + quoted(from) + " to " + quoted(to));
  }
  sync_folder(folder_of(to));
}

bool exchange_names(const std::filesystem::path& first, const std::filesystem::path& second) {
  constexpr unsigned kExchange = 2;  // RENAME_EXCHANGE
  if (!can_exchange_names()) return false;
  if (is_made_to_fail() ||
      ::syscall(SYS_renameat2, AT_FDCWD, first.c_str(), AT_FDCWD, second.c_str(), kExchange) != 0) {
    if (errno == EINVAL || errno == ENOSYS) return false;
    throw_errno("cannot exchange " + quoted(first) + " and " + quoted(second));
  }
  sync_folder(folder_of(second));
  return true;
}

std::string read_file(const std::filesystem::path& path, Links links) {
  const FdGuard guard{open_file(path, O_RDONLY | flags_of(links))};
  return read_all(guard.fd, path);
}

std::string read_regular_file(const std::filesystem::path& path, Links links) {
  const FdGuard guard{open_regular_file(path, flags_of(links))};
  return read_all(guard.fd, path);
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const FdGuard guard{open_regular_file(path, 0)};
  struct stat status {};
  if (is_made_to_fail() || ::fstat(guard.fd, &status) != 0)
    throw_errno("cannot stat " + quoted(path));
  size_bytes_ = static_cast<size_t>(status.st_size);
  modified_ns_ = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  if (size_bytes_ == 0) return;
  void* map = is_made_to_fail() ? MAP_FAILED
                                : ::mmap(nullptr, size_bytes_, PROT_READ, MAP_SHARED, guard.fd, 0);
  if (map == MAP_FAILED) {
    throw_errno("cannot map " + quoted(path) + " (" + std::to_string(size_bytes_) + " bytes" +
                (errno == ENOMEM ? "; a process has at most vm.max_map_count maps, two for each "
                                   "dataset: sysctl vm.max_map_count, or ulimit -v)"
                                 : ")"));
  }
  data_ = static_cast<const std::byte*>(map);
  add_mapping(data_, size_bytes_, path);
  crash_point("file_mapped");
}

void MappedFile::expect_random_reads() const {
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), size_bytes_, MADV_RANDOM);
}

void MappedFile::will_need(size_t begin, size_t count) const {
  if (begin >= size_bytes_ || count == 0) return;
  static const auto page_bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t first = begin / page_bytes * page_bytes;
  const size_t end = begin + std::min(count, size_bytes_ - begin);
  ::madvise(const_cast<std::byte*>(data_) + first, end - first, MADV_WILLNEED);  // only a wish
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      modified_ns_(other.modified_ns_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(modified_ns_, other.modified_ns_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  remove_mapping(data_);  // first: the addresses may be another's at once
  ::munmap(const_cast<std::byte*>(data_), size_bytes_);
}

}  // namespace weft
