#include "kernels/cuda/algorithm_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace weft::cuda {
namespace {

constexpr const char* kHeader = "weft-gemm-algorithms 1";

[[noreturn]] void fail(const std::string& path, const char* action) {
  throw std::system_error(errno, std::generic_category(),
                          path + ": cannot " + action + " the file of GEMM algorithms");
}

// An exclusive lock on the file's folder. It leaves no file behind, and readers need no lock
// because the file is renamed into place.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path) {
    const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
    std::error_code ignored;  // open() has the better error
    std::filesystem::create_directories(folder, ignored);
    fd_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd_ < 0) fail(folder.string(), "open the folder of");
    while (flock(fd_, LOCK_EX) != 0) {
      if (errno != EINTR) {
        const int error = errno;
        close(fd_);
        errno = error;
        fail(folder.string(), "lock the folder of");
      }
    }
  }
  ~FolderLock() { close(fd_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

void write_all(int fd, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw std::system_error(errno, std::generic_category(), "write");
    done += static_cast<size_t>(written);
  }
  if (fsync(fd) != 0) throw std::system_error(errno, std::generic_category(), "fsync");
}

void replace_file(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) fail(part, "create");
  try {
    write_all(fd, text);
  } catch (const std::system_error& error) {
    close(fd);
    unlink(part.c_str());
    throw std::system_error(error.code(), part + ": cannot write the file of GEMM algorithms");
  }
  if (close(fd) != 0 || rename(part.c_str(), path.c_str()) != 0) fail(path, "write");
}

}  // namespace

AlgorithmCache::AlgorithmCache(std::string path) : path_(std::move(path)) {
  if (enabled()) load();
}

std::optional<std::string> AlgorithmCache::find(const std::string& key) const {
  const auto it = values_.find(key);
  if (it == values_.end()) return std::nullopt;
  return it->second;
}

std::string AlgorithmCache::add(const std::string& key, const std::string& value) {
  const FolderLock lock(path_);
  load();
  const auto [it, added] = values_.emplace(key, value);
  if (added) {
    std::string text = std::string(kHeader) + "\n";
    for (const auto& [name, algorithm] : values_) text += name + " " + algorithm + "\n";
    replace_file(path_, text);
  }
  return it->second;
}

// Adds the file's pairs to those in memory; a key keeps the value that it has.
void AlgorithmCache::load() {
  std::ifstream file(path_);
  if (!file) {
    if (std::filesystem::exists(path_)) fail(path_, "read");
    return;
  }
  std::string line;
  if (!std::getline(file, line) || line != kHeader)
    throw std::runtime_error(path_ + ": not a file of GEMM algorithms (its first line is not '" +
                             kHeader + "'); name another file, or remove it to time anew");
  for (int number = 2; std::getline(file, line); ++number) {
    std::istringstream words(line);
    std::string key, value, rest;
    if (!(words >> key >> value) || words >> rest)
      throw std::runtime_error(path_ + ":" + std::to_string(number) +
                               ": not 'key value'; remove the file to time anew");
    values_.emplace(key, value);
  }
  if (file.bad()) fail(path_, "read");
}

}  // namespace weft::cuda
