#include "preprocess/web/kept_source.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "indexed_dataset/soundness/xxh3.h"
#include "indexed_dataset/storage/file_io.h"

namespace weft {
namespace {

constexpr int64_t kHashBytes = sizeof(uint64_t);
constexpr int64_t kStoredBytes = kHashBytes + kKeptBlockBytes;

class KeptSource final : public ByteSource {
 public:
  KeptSource(const std::filesystem::path& file, const std::string& stream, OpenStreamAt open)
      : path_(file),
        stream_hash_(XXH3_64bits(stream.data(), stream.size())),
        open_(std::move(open)),
        block_(static_cast<size_t>(kStoredBytes)) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path_, error)) return;
    try {
      kept_.emplace(path_);
    } catch (const std::system_error&) {
      // Fetched again.
    }
  }

  size_t read(char* data, size_t size_bytes) override {
    if (kept_ && num_in_block_ == 0 && !load_block()) kept_.reset();
    const size_t got = kept_ ? read_block(data, size_bytes) : fetch(data, size_bytes);
    position_ += static_cast<int64_t>(got);
    return got;
  }
  int64_t num_bytes_taken() const override { return position_; }
  std::string format() const override { return "plain"; }
  void interrupt() noexcept override {
    is_interrupted_ = true;
    if (ByteSource* source = current_) source->interrupt();
  }

 private:
  int64_t block_idx() const { return position_ / kKeptBlockBytes; }
  uint64_t hash() const {
    return XXH3_64bits_withSeed(block_.data() + kHashBytes, kKeptBlockBytes,
                                stream_hash_ + static_cast<uint64_t>(block_idx()));
  }

  // The block at position_; false if it is not there, or is not what was fetched.
  bool load_block() {
    if (is_interrupted_) throw ReadCancelled{};
    const int64_t offset = block_idx() * kStoredBytes;
    if (kept_->size_bytes() - offset < kStoredBytes) return false;
    try {
      kept_->read_at(block_.data(), block_.size(), offset);
    } catch (const std::exception&) {
      return false;
    }
    uint64_t stored = 0;
    std::memcpy(&stored, block_.data(), sizeof stored);
    if (stored != hash()) return false;
    num_in_block_ = kKeptBlockBytes;
    return true;
  }

  size_t read_block(char* data, size_t size_bytes) {
    const size_t got = std::min(size_bytes, static_cast<size_t>(num_in_block_));
    std::memcpy(data, block_.data() + kStoredBytes - num_in_block_, got);
    num_in_block_ -= static_cast<int64_t>(got);
    return got;
  }

  // Begins at the start of a block; num_in_block_ bytes of it have come.
  size_t fetch(char* data, size_t size_bytes) {
    if (!source_) {
      file_.emplace(path_, /*keep=*/true);
      source_ = open_(position_);
      current_ = source_.get();
      if (is_interrupted_) source_->interrupt();
    }
    const auto room = static_cast<size_t>(kKeptBlockBytes - num_in_block_);
    const size_t got = source_->read(data, std::min(size_bytes, room));
    std::memcpy(block_.data() + kHashBytes + num_in_block_, data, got);
    num_in_block_ += static_cast<int64_t>(got);
    if (num_in_block_ < kKeptBlockBytes) return got;
    const uint64_t computed = hash();
    std::memcpy(block_.data(), &computed, sizeof computed);
    file_->write_at(block_.data(), block_.size(), block_idx() * kStoredBytes);
    num_in_block_ = 0;
    return got;
  }

  std::filesystem::path path_;
  uint64_t stream_hash_;
  OpenStreamAt open_;
  std::optional<InputFile> kept_;
  std::optional<OutputFile> file_;
  std::unique_ptr<ByteSource> source_;
  std::atomic<ByteSource*> current_{nullptr};  // source_, for interrupt()
  std::atomic<bool> is_interrupted_{false};
  std::vector<char> block_;   // as it stands in the file
  int64_t num_in_block_ = 0;  // bytes at its end not given out yet, or at its begin fetched
  int64_t position_ = 0;
};

}  // namespace

std::unique_ptr<ByteSource> open_kept_source(const std::filesystem::path& file,
                                             const std::string& stream, OpenStreamAt open) {
  return std::make_unique<KeptSource>(file, stream, std::move(open));
}

std::filesystem::path kept_path(const std::filesystem::path& work_folder, int64_t number) {
  return work_folder / ("fetched." + std::to_string(number));
}

}  // namespace weft
