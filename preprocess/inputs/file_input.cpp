// Files, and pipes and devices, as inputs.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "preprocess/columnar/table_file.h"
#include "preprocess/inputs/input.h"
#include "preprocess/inputs/layout_text.h"

namespace weft {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw std::system_error(errno, std::generic_category(), path + ": " + what);
}

struct stat status_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) fail(path, "cannot stat");
  return status;
}

// False for files whose size is not where their bytes end, as those of /proc (which say 0), of /sys
// (a page) and of some FUSE file systems.
bool tells_its_size(const std::string& path, int64_t size_bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(path, "cannot open");
  char byte = 0;
  const ssize_t got = ::pread(fd, &byte, 1, std::max<int64_t>(size_bytes - 1, 0));
  const int error = errno;
  ::close(fd);
  errno = error;
  if (got < 0) fail(path, "reading failed");
  return got == (size_bytes > 0 ? 1 : 0);
}

InputIdentity identity_of(const struct stat& status) {
  const auto text_of = [](const timespec& time) {
    return std::to_string(time.tv_sec) + "." + std::to_string(time.tv_nsec);
  };
  return {"changed " + text_of(status.st_mtim), status.st_size, text_of(status.st_ctim)};
}

// Tells files and pipes apart; "" for what is not there.
std::string key_of_path(const std::string& path) {
  if (path == "-" || path == "/dev/stdin" || path == "/dev/fd/0" || path == "/proc/self/fd/0")
    return kStandardInputKey;
  struct stat status {
  }, input{};
  if (::stat(path.c_str(), &status) != 0) return "";
  // Bytes that were read from a pipe are gone, whatever name it was read by.
  const bool is_pipe = S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode);
  if (is_pipe && ::fstat(STDIN_FILENO, &input) == 0 && input.st_dev == status.st_dev &&
      input.st_ino == status.st_ino) {
    return kStandardInputKey;
  }
  return "file " + std::to_string(status.st_dev) + " " + std::to_string(status.st_ino);
}

class FileInput final : public Input {
 public:
  explicit FileInput(const std::string& path) : Input(path) {}

  std::string key() const override { return key_of_path(name()); }
  std::string path() const override { return name(); }
  int opening_error() const override {
    struct stat status {};
    if (::stat(name().c_str(), &status) != 0 || ::access(name().c_str(), R_OK) != 0) return errno;
    return S_ISDIR(status.st_mode) ? EISDIR : 0;
  }

  // A file that does not tell its size is read as a pipe is.
  void look(const std::atomic<bool>& cancelled, const RowRequest& wanted) override {
    const struct stat status = status_of(name());
    if (S_ISDIR(status.st_mode)) {
      errno = EISDIR;
      fail(name(), "cannot read");
    }
    identity_ = {};
    if (S_ISREG(status.st_mode) && !tells_its_size(name(), status.st_size)) return be_stream();
    identity_ = identity_of(status);
    if (is_table()) {
      layout_ = table_->layout(wanted, cancelled);
    } else {
      layout_ = input_layout(name());
    }
  }
  std::string found() const override { return layout_.has_rows ? layout_text(layout_) : ""; }
  // Ranks compare their identities, so a file that is another one here is no trouble.
  void take_found(const std::string& found, const std::atomic<bool>& cancelled,
                  const RowRequest& wanted) override {
    identity_ = identity_of(status_of(name()));
    if (!is_table()) return look(cancelled, wanted);
    layout_ = layout_from(found);
  }
  bool has_changed() const override {
    return !identity_.version.empty() && identity_of(status_of(name())) != identity_;
  }

  std::unique_ptr<ByteSource> open(int64_t begin, int64_t end, const std::atomic<bool>& cancelled,
                                   const DecodeOptions& options) const override {
    if (layout_.file_bytes < 0) return decode(open_file(name(), cancelled), name(), options);
    return open_input_range(name(), layout_, begin, end < 0 ? layout_.file_bytes : end, cancelled,
                            options);
  }
  std::unique_ptr<RowSource> open_rows(int64_t begin, int64_t end, int64_t num_rows_passed,
                                       const RowRequest& request,
                                       const std::atomic<bool>& cancelled) const override {
    return table_->read(begin, end, num_rows_passed, request, cancelled);
  }

 private:
  // Finds out whether it holds a table, but does not open that.
  bool is_table() {
    const auto format = table_format_of_file(name());
    if (!format) return false;
    table_ = std::make_unique<TableFile>(
        name(), *format,
        [path = name()](const std::atomic<bool>&) { return open_random_access(path); });
    return true;
  }

  std::unique_ptr<TableFile> table_;  // null: it holds none
};

// Standard input ("-"), a named pipe or a device: read once, from front to back.
class PipeInput final : public Input {
 public:
  explicit PipeInput(const std::string& path)
      : Input(path == "-" ? "<stdin>" : path), path_(path) {}

  std::string key() const override { return key_of_path(path_); }
  std::string path() const override { return is_standard_input() ? "" : path_; }
  int opening_error() const override {
    return !is_standard_input() && ::access(path_.c_str(), R_OK) != 0 ? errno : 0;
  }
  void look(const std::atomic<bool>&, const RowRequest&) override { be_stream(); }
  std::unique_ptr<ByteSource> open(int64_t, int64_t, const std::atomic<bool>& cancelled,
                                   const DecodeOptions& options) const override {
    auto raw = is_standard_input() ? open_standard_input(cancelled) : open_file(path_, cancelled);
    return decode(std::move(raw), name(), options);
  }

 private:
  bool is_standard_input() const { return path_ == "-"; }

  const std::string path_;
};

}  // namespace

std::shared_ptr<Input> make_file_input(const std::string& path) {
  return std::make_shared<FileInput>(path);
}

std::shared_ptr<Input> make_pipe_input(const std::string& path) {
  return std::make_shared<PipeInput>(path);
}

}  // namespace weft
