// What the system calls behind file_io.h have in common: the fault hook, and errors that name the
// path. For the sources of this folder only.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace weft::io_call {

// Counts one I/O call; true (with errno set) when the hook wants it to fail. A build without tests
// has no hook: always false.
bool is_made_to_fail();
// True once after is_made_to_fail(), where the hook wants the next write of this thread to lose a
// page.
bool is_made_to_lose_page();
// std::system_error of errno.
[[noreturn]] void throw_errno(const std::string& what);
std::string quoted(const std::filesystem::path& path);
int open_file(const std::filesystem::path& path, int flags, mode_t mode = 0666);
// f_type of statfs(2), of the file system that `path` lies on.
uint32_t file_system_magic(const std::filesystem::path& path);
int64_t size_of(int fd, const std::filesystem::path& path);

// Closes a descriptor that is only read from, or whose error is already known.
struct FdGuard {
  int fd;
  ~FdGuard() { ::close(fd); }
};

}  // namespace weft::io_call
