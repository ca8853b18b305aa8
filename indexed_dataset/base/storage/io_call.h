// System calls as file_io.h makes them: with the fault hook, and with errors that name the path.
// For the sources of this folder only.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "indexed_dataset/base/storage/io_fault.h"

namespace weft::io_call {

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
