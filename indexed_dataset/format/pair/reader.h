// Reads a Megatron mmap dataset (format: shared_pair_writer.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/pair/dtype.h"
#include "indexed_dataset/format/pair/index_view.h"

namespace weft {

// The lengths of all sequences, read in place; valid while its DatasetReader (or array) lives.
// Thread-safe.
class SequenceLengths {
 public:
  explicit SequenceLengths(const IndexView& index)
      : data_(index.lengths), count_(index.num_sequences), index_(&index) {}
  explicit SequenceLengths(const std::vector<int32_t>& lengths)
      : data_(reinterpret_cast<const std::byte*>(lengths.data())), count_(std::ssize(lengths)) {}
  int64_t size() const { return count_; }
  int32_t operator[](int64_t idx) const { return load_number<int32_t>(data_ + 4 * idx); }
  const std::byte* address(int64_t idx) const { return data_ + 4 * idx; }  // for prefetching
  // The first sequence of [begin, end) that does not end where the next one begins, by the two
  // offsets and its length; `end` if there is none, and for an array, which has no offsets.
  int64_t first_misfit(int64_t begin, int64_t end) const;

 private:
  const std::byte* data_;
  int64_t count_;
  const IndexView* index_ = nullptr;
};

// Thread-safe after construction. The files stay mapped while it lives; they must not be truncated
// meanwhile. Positions given to the members must exist unless an exception is named.
class DatasetReader {
 public:
  // Opens PREFIX.idx and PREFIX.bin. Checks magic, version, token type, that the index's size fits
  // its counts, that the document bounds go from 0 to the number of sequences (or are absent), and
  // that the .bin ends where the last sequence ends. (Every other check: verify.h.) Throws
  // std::runtime_error with what is wrong and where; std::system_error if a file cannot be opened.
  explicit DatasetReader(const std::filesystem::path& prefix);

  TokenType token_type() const { return index_.type; }
  int64_t num_sequences() const { return index_.num_sequences; }
  // Empty documents are counted. 0 in files without bounds, which old merge tools wrote.
  int64_t num_documents() const { return index_.num_bounds - 1; }
  int64_t num_tokens() const;
  int32_t length(int64_t sequence_idx) const { return index_.length(sequence_idx); }  // tokens
  SequenceLengths lengths() const { return SequenceLengths(index_); }
  int64_t offset_bytes(int64_t sequence_idx) const {  // in .bin
    return index_.offset_bytes(sequence_idx);
  }
  // First sequence of document idx; idx in [0, num_documents()].
  int64_t document_bound(int64_t idx) const { return index_.bound(idx); }
  // The document that holds a sequence. Empty documents hold none, so document numbers run ahead of
  // sequence numbers. In files without bounds each sequence is taken for one document.
  int64_t document_of_sequence(int64_t sequence_idx) const;
  // Tokens [begin, begin + count) of one sequence, widened. Throws std::out_of_range;
  // std::runtime_error if the sequence does not end where the next one begins (a wrong offset or
  // length) or an id does not fit int32_t.
  void copy_tokens(int64_t sequence_idx, int64_t begin, int64_t count, int32_t* tokens) const;
  std::vector<int32_t> tokens(int64_t sequence_idx) const;
  // For readers of training samples, which jump: see MappedFile. will_need() ignores what
  // copy_tokens() would refuse.
  void expect_random_reads() const { bin_.expect_random_reads(); }
  void will_need(int64_t sequence_idx, int64_t begin, int64_t count) const;
  // Brings the length and the offset of a sequence, which must be there, into the processor's
  // caches.
  void prefetch_entry(int64_t sequence_idx) const { index_.prefetch(sequence_idx); }
  // Brings tokens that lie in memory into the processor's caches. It ignores positions that
  // copy_tokens() would refuse.
  void prefetch(int64_t sequence_idx, int64_t begin, int64_t count) const;
  const std::filesystem::path& prefix() const { return prefix_; }
  // The files as they were opened, whatever has their names now.
  std::span<const std::byte> bin_bytes() const { return bin_.bytes(); }
  std::span<const std::byte> idx_bytes() const { return idx_.bytes(); }
  int64_t idx_modified_ns() const { return idx_.modified_ns(); }

 private:
  void check_bounds() const;
  void check_place(int64_t sequence_idx) const;

  std::filesystem::path prefix_;
  MappedFile idx_, bin_;
  IndexView index_;
};

}  // namespace weft
