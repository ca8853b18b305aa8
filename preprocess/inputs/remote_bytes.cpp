#include "preprocess/inputs/remote_bytes.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "indexed_dataset/base/process/thread_group.h"
#include "preprocess/stream/byte_source.h"

namespace weft {
namespace {

// One request: at 100 MB/s it takes as long as its answer takes to begin (~50 ms).
constexpr int64_t kBlockBytes = int64_t{4} << 20;
// Bytes between two ranges that are read with them: they take less time than another request.
constexpr int64_t kMaxHoleBytes = 64 << 10;

using Ranges = std::vector<std::vector<FileRange>>;

// Part of the file that one request brings.
//   waiting -> fetching -> there -> gone (all that was announced is read, or lies behind)
struct Block {
  enum class State { kWaiting, kFetching, kThere, kGone };
  FileRange range;
  size_t first_group = 0, last_group = 0;
  int64_t num_announced = 0, num_read = 0;  // bytes
  State state = State::kWaiting;
  std::unique_ptr<char[]> bytes;
  std::exception_ptr error;

  int64_t size_bytes() const { return range.end - range.begin; }
};

// The blocks in the order of reading: ranges of a group are read side by side, so their blocks
// alternate in proportion to their lengths. Small ranges that lie together are one block.
std::deque<Block> blocks_of(const Ranges& groups, int64_t file_bytes) {
  struct Piece {
    double at;  // share of its range that lies before it
    FileRange range;
  };
  std::deque<Block> blocks;
  for (size_t group = 0; group < groups.size(); ++group) {
    std::vector<Piece> pieces;
    for (const auto& [begin, end] : groups[group]) {
      if (begin < 0 || begin >= end || end > file_bytes) continue;  // a damaged file's
      for (int64_t at = begin; at < end; at += kBlockBytes) {
        pieces.push_back({static_cast<double>(at - begin) / static_cast<double>(end - begin),
                          {at, std::min(at + kBlockBytes, end)}});
      }
    }
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
      return a.at != b.at ? a.at < b.at : a.range.begin < b.range.begin;
    });
    for (const Piece& piece : pieces) {
      const FileRange& range = piece.range;
      const bool goes_on = !blocks.empty() && range.begin >= blocks.back().range.end &&
                           range.begin - blocks.back().range.end <= kMaxHoleBytes &&
                           range.end - blocks.back().range.begin <= kBlockBytes;
      if (!goes_on) {
        blocks.emplace_back();
        blocks.back().range.begin = range.begin;
        blocks.back().first_group = group;
      }
      Block& block = blocks.back();
      block.range.end = range.end;
      block.last_group = group;
      block.num_announced += range.end - range.begin;
    }
  }
  return blocks;
}

// Several threads fetch blocks in the order of reading, as far as there is memory for. A block that
// is asked for before its turn is fetched by the thread that asks.
class BytesAhead final : public RandomAccess {
 public:
  BytesAhead(std::shared_ptr<RemoteFile> file, const UrlOptions& options, const Ranges& groups,
             const std::atomic<bool>& cancelled)
      : file_(std::move(file)),
        options_(options),
        cancelled_(cancelled),
        max_bytes_(options.fetch.num_connections * options.fetch.part_bytes),
        blocks_(blocks_of(groups, size_bytes())) {
    for (Block& block : blocks_) by_begin_.push_back(&block);
    std::sort(by_begin_.begin(), by_begin_.end(),
              [](const Block* a, const Block* b) { return a->range.begin < b->range.begin; });
    const auto num_threads = std::min<int64_t>(options.fetch.num_connections, std::ssize(blocks_));
    options_.fetch.num_connections = 1;
    try {
      for (int64_t i = 0; i < num_threads; ++i) threads_.start([this] { fetch_ahead(); });
    } catch (...) {
      end_threads();
      throw;
    }
  }
  ~BytesAhead() override { end_threads(); }

  int64_t size_bytes() const override { return options_.expected.size_bytes; }
  void read(int64_t offset_bytes, char* data, size_t size_bytes) const override {
    const auto end = offset_bytes + static_cast<int64_t>(size_bytes);
    while (offset_bytes < end) {
      const int64_t got = read_block(offset_bytes, data, end - offset_bytes);
      if (got == 0) return read_now({offset_bytes, end}, data, cancelled_);
      offset_bytes += got;
      data += got;
    }
  }

 private:
  using Lock = std::unique_lock<std::mutex>;

  void end_threads() {
    {
      const std::lock_guard lock(mutex_);
      is_ended_ = true;
    }
    changed_.notify_all();
  }

  void read_now(ByteRange range, char* data, const std::atomic<bool>& cancelled) const {
    read_url_range(*file_, options_, range, data, cancelled);
  }

  // The block that has this byte and is not gone; null if none has.
  Block* block_at(int64_t offset_bytes) const {
    const auto after = std::upper_bound(
        by_begin_.begin(), by_begin_.end(), offset_bytes,
        [](int64_t offset, const Block* block) { return offset < block->range.begin; });
    if (after == by_begin_.begin()) return nullptr;
    Block* const block = *std::prev(after);
    return block->range.end > offset_bytes && block->state != Block::State::kGone ? block : nullptr;
  }

  // Copies what a block has of these bytes; 0 if there is none for the first.
  int64_t read_block(int64_t offset_bytes, char* data, int64_t max_bytes) const {
    Lock lock(mutex_);
    Block* const block = block_at(offset_bytes);
    if (block == nullptr) return 0;
    // The reader does not wait for what it has skipped.
    for (Block& other : blocks_) {
      if (other.last_group >= block->first_group) break;
      if (other.state != Block::State::kFetching) release(other);
    }
    if (block->state == Block::State::kWaiting) fetch(*block, lock, cancelled_);
    while (block->state == Block::State::kFetching) {
      if (cancelled_.load(std::memory_order_relaxed)) throw ReadCancelled{};
      changed_.wait_for(lock, std::chrono::milliseconds(100));
    }
    if (block->error) std::rethrow_exception(block->error);
    const int64_t got = std::min(max_bytes, block->range.end - offset_bytes);
    std::memcpy(data, block->bytes.get() + (offset_bytes - block->range.begin),
                static_cast<size_t>(got));
    block->num_read += got;
    if (block->num_read >= block->num_announced) release(*block);
    return got;
  }

  // With mutex_ held, as the next ones.
  void release(Block& block) const {
    if (block.bytes) held_bytes_ -= block.size_bytes();
    block.bytes.reset();
    block.state = Block::State::kGone;
    changed_.notify_all();
  }

  void fetch(Block& block, Lock& lock, const std::atomic<bool>& cancelled) const {
    block.state = Block::State::kFetching;
    held_bytes_ += block.size_bytes();
    lock.unlock();
    std::unique_ptr<char[]> bytes;
    std::exception_ptr error;
    try {
      bytes.reset(new char[static_cast<size_t>(block.size_bytes())]);
      read_now({block.range.begin, block.range.end}, bytes.get(), cancelled);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    block.bytes = std::move(bytes);
    block.error = error;
    block.state = Block::State::kThere;
    if (!block.bytes) held_bytes_ -= block.size_bytes();
    changed_.notify_all();
  }

  // A thread of its own runs this.
  void fetch_ahead() const {
    Lock lock(mutex_);
    while (!is_ended_) {
      while (next_ < blocks_.size() && blocks_[next_].state != Block::State::kWaiting) ++next_;
      if (next_ == blocks_.size()) return;
      if (held_bytes_ + blocks_[next_].size_bytes() <= max_bytes_) {
        fetch(blocks_[next_], lock, is_ended_);
      } else {
        changed_.wait(lock);
      }
    }
  }

  const std::shared_ptr<RemoteFile> file_;
  UrlOptions options_;
  const std::atomic<bool>& cancelled_;
  const int64_t max_bytes_;
  mutable std::deque<Block> blocks_;  // guarded by mutex_ but for their ranges, as the next ones
  mutable size_t next_ = 0;           // no block before it is waiting
  mutable int64_t held_bytes_ = 0;    // of blocks that are being fetched, or there
  std::vector<Block*> by_begin_;
  std::atomic<bool> is_ended_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  ThreadGroup threads_;  // ends before the rest does
};

class RemoteBytes final : public RandomAccess {
 public:
  RemoteBytes(std::shared_ptr<RemoteFile> file, const UrlOptions& options,
              const std::atomic<bool>& cancelled)
      : file_(std::move(file)), options_(options), cancelled_(cancelled) {}

  int64_t size_bytes() const override { return options_.expected.size_bytes; }
  void read(int64_t offset_bytes, char* data, size_t size_bytes) const override {
    const ByteRange range{offset_bytes, offset_bytes + static_cast<int64_t>(size_bytes)};
    read_url_range(*file_, options_, range, data, cancelled_);
  }
  std::unique_ptr<RandomAccess> reading_ahead(const Ranges& groups,
                                              const std::atomic<bool>& cancelled) const override {
    return std::make_unique<BytesAhead>(file_, options_, groups, cancelled);
  }

 private:
  const std::shared_ptr<RemoteFile> file_;
  const UrlOptions options_;
  const std::atomic<bool>& cancelled_;
};

}  // namespace

std::shared_ptr<const RandomAccess> open_remote_bytes(std::shared_ptr<RemoteFile> file,
                                                      const UrlOptions& options,
                                                      const std::atomic<bool>& cancelled) {
  return std::make_shared<RemoteBytes>(std::move(file), options, cancelled);
}

}  // namespace weft
