#include "kernels/cuda/algorithm_table.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "kernels/folder_lock.h"

namespace weft::cuda {
namespace {

constexpr const char* kHeader = "weft-gemm-algorithms 1";

[[noreturn]] void fail(const std::string& path, const char* action) {
  throw std::system_error(errno, std::generic_category(), path + ": cannot " + action);
}

void write_all(int fd, const std::string& text, const std::string& path) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path, "write");
    done += static_cast<size_t>(written);
  }
  if (fsync(fd) != 0) fail(path, "sync");
}

void replace_file(const std::string& path, const std::string& text) {
  // The name holds the process, in case the file system has no locks.
  const std::string part = path + "." + std::to_string(getpid()) + ".part";
  const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) fail(part, "create");
  try {
    write_all(fd, text, part);
  } catch (const std::system_error&) {
    close(fd);
    unlink(part.c_str());
    throw;
  }
  close(fd);
  if (rename(part.c_str(), path.c_str()) != 0) {
    unlink(part.c_str());
    fail(path, "write");
  }
}

// Reads the pairs of a table; `name` is the file's, for messages.
std::map<std::string, std::string> parse(std::istream& text, const std::string& name) {
  std::map<std::string, std::string> pairs;
  std::string line;
  if (!std::getline(text, line) || line != kHeader)
    throw std::runtime_error(name + ": not a table of GEMM algorithms (its first line is not '" +
                             kHeader + "'); name another file, or remove it to time anew");
  for (int number = 2; std::getline(text, line); ++number) {
    std::istringstream words(line);
    std::string key, value, rest;
    if (!(words >> key >> value) || words >> rest)
      throw std::runtime_error(name + ":" + std::to_string(number) +
                               ": not 'key value'; remove the file to time anew");
    pairs.emplace(key, value);
  }
  return pairs;
}

}  // namespace

AlgorithmTable::AlgorithmTable(std::string path) : path_(std::move(path)) {
  if (has_file()) values_ = read_file();
}

std::optional<std::string> AlgorithmTable::find(const std::string& key) {
  const auto it = values_.find(key);
  if (it == values_.end()) return std::nullopt;
  in_use_.insert(key);
  return it->second;
}

std::optional<std::string> AlgorithmTable::find_settled(const std::string& key) {
  if (!in_use_.contains(key) && !taken_.contains(key)) return std::nullopt;
  return find(key);
}

void AlgorithmTable::add(const std::string& key, const std::string& value) {
  values_[key] = value;
  in_use_.insert(key);
  unstored_.insert(key);
}

void AlgorithmTable::take(const std::string& text) {
  if (text.empty()) return;
  std::istringstream stream(text);
  for (const auto& [key, value] : parse(stream, "the stored GEMM algorithms")) {
    values_[key] = value;
    taken_.insert(key);
  }
}

std::string AlgorithmTable::text_in_use() const {
  if (in_use_.empty()) return "";
  std::string text = std::string(kHeader) + "\n";
  for (const std::string& key : in_use_) text += key + " " + values_.at(key) + "\n";
  return text;
}

std::string AlgorithmTable::store() {
  if (!has_file() || unstored_.empty()) return "";
  try {
    const FolderLock lock(path_);
    Pairs stored = read_file();
    bool changed = false;
    for (const std::string& key : unstored_) {
      const auto [it, added] = stored.emplace(key, values_.at(key));
      values_[key] = it->second;
      changed = changed || added;
    }
    if (changed) {
      std::string text = std::string(kHeader) + "\n";
      for (const auto& [key, value] : stored) text += key + " " + value + "\n";
      replace_file(path_, text);
    }
  } catch (const std::exception& error) {
    return std::string("the timed GEMM algorithms are not kept: ") + error.what() +
           "; a run that is started anew times them again (--gemm-algorithm-cache names another "
           "file)";
  }
  unstored_.clear();
  return "";
}

// A file that cannot be read counts as absent: store() tells why it cannot be written.
AlgorithmTable::Pairs AlgorithmTable::read_file() const {
  std::ifstream file(path_);
  if (!file) return {};
  return parse(file, path_);
}

}  // namespace weft::cuda
