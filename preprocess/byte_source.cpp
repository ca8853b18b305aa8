#include "preprocess/byte_source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <vector>

#include "preprocess/decompress.h"

namespace weft {
namespace {

// The bytes of the file as they are. The first ones are kept aside, so that the format can be told
// before reading.
class FileSource final : public ByteSource {
 public:
  FileSource(const std::string& path, const std::atomic<bool>& cancelled)
      : name_(display_name(path)), cancelled_(cancelled) {
    // O_NONBLOCK: opening a named pipe that nobody writes to would wait for ever; read_fd() waits
    // instead, and can be cancelled.
    fd_ = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0) fail("cannot open");
    owns_fd_ = path != "-";
#ifdef POSIX_FADV_SEQUENTIAL
    ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);  // advice only: pipes refuse it
#endif
    while (num_peeked_ < peeked_.size()) {
      const size_t got = read_fd(peeked_.data() + num_peeked_, peeked_.size() - num_peeked_);
      if (got == 0) break;
      num_peeked_ += got;
    }
  }
  FileSource(const FileSource&) = delete;
  ~FileSource() override {
    if (owns_fd_) ::close(fd_);
  }

  std::string_view first_bytes() const { return {peeked_.data(), num_peeked_}; }

  size_t read(char* data, size_t size_bytes) override {
    size_t got = std::min(size_bytes, num_peeked_ - num_replayed_);
    if (got > 0) {
      std::memcpy(data, peeked_.data() + num_replayed_, got);
      num_replayed_ += got;
    } else {
      got = read_fd(data, size_bytes);
    }
    num_bytes_taken_ += static_cast<int64_t>(got);
    return got;
  }
  int64_t num_bytes_taken() const override { return num_bytes_taken_; }
  std::string format() const override { return "plain"; }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::system_error(errno, std::generic_category(), name_ + ": " + what);
  }

  size_t read_fd(char* data, size_t size_bytes) const {
    for (;;) {
      pollfd waiting{fd_, POLLIN, 0};
      // 100 ms: a pipe that stays silent must not keep a stopped run alive.
      const int ready = ::poll(&waiting, 1, 100);
      if (cancelled_.load(std::memory_order_relaxed)) throw ReadCancelled{};
      if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
      const ssize_t got = ::read(fd_, data, size_bytes);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR && errno != EAGAIN) fail("reading failed");
    }
  }

  std::string name_;
  const std::atomic<bool>& cancelled_;
  int fd_ = -1;
  bool owns_fd_ = false;
  std::array<char, kNumMagicBytes> peeked_{};
  size_t num_peeked_ = 0, num_replayed_ = 0;
  int64_t num_bytes_taken_ = 0;
};

// Feeds a file through a decoder.
class DecodedSource final : public ByteSource {
 public:
  DecodedSource(std::string name, std::unique_ptr<ByteSource> file,
                std::unique_ptr<StreamDecoder> decoder)
      : name_(std::move(name)),
        file_(std::move(file)),
        decoder_(std::move(decoder)),
        input_(kInputBytes) {}

  size_t read(char* data, size_t size_bytes) override {
    for (;;) {
      refill_if_empty();
      if (begin_ == end_ && decoder_->complete()) return 0;
      const StreamDecoder::Step step =
          decode({input_.data() + begin_, end_ - begin_}, {data, size_bytes});
      begin_ += step.num_consumed;
      num_consumed_ += static_cast<int64_t>(step.num_consumed);
      num_produced_ += static_cast<int64_t>(step.num_produced);
      if (step.num_produced > 0) return step.num_produced;
      if (step.num_consumed == 0 && begin_ == end_ && at_end_ && !decoder_->complete()) {
        fail("the stream is cut off: the file is incomplete");
      }
      if (step.num_consumed == 0 && begin_ != end_) fail("the stream is corrupt");
    }
  }
  int64_t num_bytes_taken() const override { return num_consumed_; }
  std::string format() const override { return decoder_->format(); }

 private:
  // 1 MiB: far above what a decoder consumes per call, small beside one chunk of text.
  static constexpr size_t kInputBytes = 1 << 20;

  void refill_if_empty() {
    if (begin_ != end_ || at_end_) return;
    begin_ = 0;
    end_ = file_->read(input_.data(), input_.size());
    at_end_ = end_ == 0;
  }

  StreamDecoder::Step decode(std::string_view in, std::span<char> out) {
    try {
      return decoder_->decode(in, out, at_end_);
    } catch (const CorruptStream& error) {
      fail(error.what());
    }
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error(name_ + ": " + decoder_->format() + " data, compressed byte " +
                             std::to_string(num_consumed_) + " (after " +
                             std::to_string(num_produced_) + " decompressed bytes): " + why +
                             "; fetch or copy the file again");
  }

  std::string name_;
  std::unique_ptr<ByteSource> file_;
  std::unique_ptr<StreamDecoder> decoder_;
  std::vector<char> input_;
  size_t begin_ = 0, end_ = 0;
  bool at_end_ = false;
  int64_t num_consumed_ = 0, num_produced_ = 0;
};

// Only used to tell an interrupted copy from an empty corpus.
bool has_compressed_name(std::string_view path) {
  return path.ends_with(".gz") || path.ends_with(".xz") || path.ends_with(".zst") ||
         path.ends_with(".bz2");
}

}  // namespace

std::unique_ptr<ByteSource> open_input(const std::string& path,
                                       const std::atomic<bool>& cancelled) {
  auto file = std::make_unique<FileSource>(path, cancelled);
  const std::string_view first_bytes = file->first_bytes();
  auto decoder = decoder_for(first_bytes);
  if (!decoder) {
    if (has_compressed_name(path) && first_bytes.size() < kNumMagicBytes) {
      throw std::runtime_error(path + ": has only " + std::to_string(first_bytes.size()) +
                               " bytes, no compressed file is so short: the file is incomplete; "
                               "fetch or copy it again");
    }
    return file;
  }
  return std::make_unique<DecodedSource>(display_name(path), std::move(file), std::move(decoder));
}

void check_inputs_can_be_opened(const std::vector<std::string>& paths) {
  int first_error = 0;
  std::string names;
  for (const std::string& path : paths) {
    if (path == "-") continue;
    struct stat status {};
    int error = 0;
    if (::stat(path.c_str(), &status) != 0 || ::access(path.c_str(), R_OK) != 0) {
      error = errno;
    } else if (S_ISDIR(status.st_mode)) {
      error = EISDIR;
    }
    if (error == 0 || (first_error != 0 && error != first_error)) continue;
    first_error = error;
    names += (names.empty() ? "'" : ", '") + path + "'";
  }
  if (first_error != 0)
    throw std::system_error(first_error, std::generic_category(), "cannot read " + names);
}

std::string display_name(const std::string& path) { return path == "-" ? "<stdin>" : path; }

}  // namespace weft
