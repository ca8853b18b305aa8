#include "indexed_dataset/pair/interleave_partitions.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "indexed_dataset/pair/dataset_counts.h"
#include "indexed_dataset/pair/index_view.h"
#include "indexed_dataset/storage/file_io.h"

namespace weft {
namespace {

constexpr int64_t kReadBytes = 4 << 20;

// For all partitions together; one gets no less than what makes a write worth its call.
size_t buffer_bytes(int64_t of_all, int64_t num_partitions, int64_t at_least) {
  return static_cast<size_t>(std::clamp(of_all / num_partitions, at_least, int64_t{4} << 20));
}

// Bytes that follow each other in a file, gathered to larger writes.
class GatheredWrites {
 public:
  GatheredWrites(OutputFile& file, int64_t offset_bytes, size_t buffer_bytes)
      : file_(&file), offset_bytes_(offset_bytes), capacity_(buffer_bytes) {}

  void append(const std::byte* data, size_t size_bytes) {
    while (size_bytes > 0) {
      const size_t count = std::min(size_bytes, capacity_ - buffer_.size());
      buffer_.insert(buffer_.end(), data, data + count);
      data += count;
      size_bytes -= count;
      if (buffer_.size() == capacity_) flush();
    }
  }
  template <typename T>
  void append_value(T value) {
    append(reinterpret_cast<const std::byte*>(&value), sizeof value);
  }
  void flush() {
    if (buffer_.empty()) return;
    file_->write_at(buffer_.data(), buffer_.size(), offset_bytes_);
    offset_bytes_ += static_cast<int64_t>(buffer_.size());
    buffer_.clear();
  }

 private:
  OutputFile* file_;
  int64_t offset_bytes_;
  size_t capacity_;
  std::vector<std::byte> buffer_;
};

// A file from front to back.
class FrontToBack {
 public:
  explicit FrontToBack(const InputFile& file) : file_(file) {}

  // At most `size_bytes` of what comes next, valid until the next call.
  std::span<const std::byte> next(int64_t size_bytes) {
    if (begin_ == std::ssize(block_)) {
      block_.resize(static_cast<size_t>(std::min(kReadBytes, file_.size_bytes() - offset_bytes_)));
      file_.read_at(block_.data(), block_.size(), offset_bytes_);
      offset_bytes_ += std::ssize(block_);
      begin_ = 0;
    }
    const int64_t count = std::min(size_bytes, std::ssize(block_) - begin_);
    begin_ += count;
    return {block_.data() + begin_ - count, static_cast<size_t>(count)};
  }

 private:
  const InputFile& file_;
  std::vector<std::byte> block_;
  int64_t begin_ = 0, offset_bytes_ = 0;
};

class Deal {
 public:
  Deal(const std::filesystem::path& bin, const std::filesystem::path& idx, int64_t num_partitions)
      : bin_(bin),
        idx_(idx),
        index_(parse_index(idx_.bytes(), idx)),
        item_bytes_(size_bytes(index_.type)),
        counts_(static_cast<size_t>(num_partitions)) {
    count(idx);
  }

  void write(const std::filesystem::path& dealt_bin, const std::filesystem::path& dealt_idx,
             const std::function<void()>& check);

 private:
  // One partition on its way to the disk.
  struct Partition {
    GatheredWrites tokens, lengths, offsets, bounds;
    DatasetCounts written;  // here and in the partitions before
  };

  int64_t num_partitions() const { return std::ssize(counts_); }
  int64_t num_documents() const { return index_.num_bounds - 1; }
  void count(const std::filesystem::path& idx);
  std::vector<Partition> partitions(OutputFile& bin, OutputFile& idx) const;
  void deal_index_entries(int64_t document_idx, Partition& partition) const;

  InputFile bin_;
  MappedFile idx_;
  IndexView index_;
  int64_t item_bytes_;
  std::vector<DatasetCounts> counts_;  // of each partition
};

void Deal::count(const std::filesystem::path& idx) {
  const auto refuse = [&](const std::string& what) {
    throw std::runtime_error(idx.string() + ": " + what + ": the index is damaged");
  };
  int64_t num_tokens = 0;
  for (int64_t d = 0; d < num_documents(); ++d) {
    const int64_t first = index_.bound(d), last = index_.bound(d + 1);
    if (first < 0 || first > last || last > index_.num_sequences) {
      refuse("document " + std::to_string(d) + " has no sequences that could be");
    }
    DatasetCounts& counts = counts_[static_cast<size_t>(d % num_partitions())];
    ++counts.num_documents;
    counts.num_sequences += last - first;
    for (int64_t s = first; s < last; ++s) {
      const int64_t length = index_.length(s);
      if (length < 0) refuse("sequence " + std::to_string(s) + " has a negative length");
      counts.num_tokens += length;
      num_tokens += length;
    }
  }
  if (index_.bound(0) != 0 || index_.bound(num_documents()) != index_.num_sequences ||
      num_tokens != bin_.size_bytes() / item_bytes_ || bin_.size_bytes() % item_bytes_ != 0) {
    refuse("its documents are not those of the .bin of " + std::to_string(bin_.size_bytes()) +
           " bytes");
  }
}

std::vector<Deal::Partition> Deal::partitions(OutputFile& bin, OutputFile& idx) const {
  const int64_t lengths_at = kIndexHeaderBytes;
  const int64_t offsets_at = lengths_at + 4 * index_.num_sequences;
  const int64_t bounds_at = offsets_at + 8 * index_.num_sequences;
  const size_t token_buffer = buffer_bytes(int64_t{32} << 20, num_partitions(), 64 << 10);
  const size_t index_buffer = buffer_bytes(int64_t{8} << 20, num_partitions(), 16 << 10);
  std::vector<Partition> partitions;
  DatasetCounts before;
  for (const DatasetCounts& counts : counts_) {
    partitions.push_back({{bin, before.num_tokens * item_bytes_, token_buffer},
                          {idx, lengths_at + 4 * before.num_sequences, index_buffer},
                          {idx, offsets_at + 8 * before.num_sequences, index_buffer},
                          {idx, bounds_at + 8 * (before.num_documents + 1), index_buffer},
                          before});
    before.add(counts);
  }
  return partitions;
}

void Deal::deal_index_entries(int64_t document_idx, Partition& partition) const {
  for (int64_t s = index_.bound(document_idx); s < index_.bound(document_idx + 1); ++s) {
    partition.lengths.append_value(index_.length(s));
    partition.offsets.append_value(partition.written.num_tokens * item_bytes_);
    partition.written.num_tokens += index_.length(s);
    ++partition.written.num_sequences;
  }
  partition.bounds.append_value(partition.written.num_sequences);
}

void Deal::write(const std::filesystem::path& dealt_bin, const std::filesystem::path& dealt_idx,
                 const std::function<void()>& check) {
  OutputFile bin(dealt_bin), idx(dealt_idx);
  bin.preallocate(0, bin_.size_bytes());
  // All but the order of documents stays as it is: the header, and the first bound, which is 0.
  idx.write_at(idx_.bytes().data(), kIndexHeaderBytes, 0);
  idx.write_at(index_.bounds, sizeof(int64_t), index_.bounds - idx_.bytes().data());

  std::vector<Partition> partitions = this->partitions(bin, idx);
  FrontToBack tokens(bin_);
  int64_t unchecked_bytes = 0;
  for (int64_t d = 0; d < num_documents(); ++d) {
    Partition& partition = partitions[static_cast<size_t>(d % num_partitions())];
    const int64_t tokens_before = partition.written.num_tokens;
    deal_index_entries(d, partition);
    int64_t rest_bytes = (partition.written.num_tokens - tokens_before) * item_bytes_;
    while (rest_bytes > 0) {
      const std::span<const std::byte> piece = tokens.next(rest_bytes);
      partition.tokens.append(piece.data(), piece.size());
      rest_bytes -= std::ssize(piece);
      unchecked_bytes += std::ssize(piece);
    }
    // An empty document costs something too.
    unchecked_bytes += 64;
    if (unchecked_bytes < kReadBytes) continue;
    unchecked_bytes = 0;
    check();
  }
  for (Partition& partition : partitions) {
    for (GatheredWrites* writes :
         {&partition.tokens, &partition.lengths, &partition.offsets, &partition.bounds}) {
      writes->flush();
    }
  }
  for (OutputFile* file : {&bin, &idx}) {
    file->sync();
    file->close();
  }
}

}  // namespace

void deal_pair(const std::filesystem::path& bin, const std::filesystem::path& idx,
               const std::filesystem::path& dealt_bin, const std::filesystem::path& dealt_idx,
               int64_t num_partitions, const std::function<void()>& check) {
  if (num_partitions < 1) throw std::invalid_argument("deal_pair: at least one partition");
  Deal(bin, idx, num_partitions).write(dealt_bin, dealt_idx, check);
}

}  // namespace weft
