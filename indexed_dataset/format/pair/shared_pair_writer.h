// Writes a dataset's pair piece by piece, each at the place that its counts give it: from several
// threads, processes and nodes, in any order.
//
//   idx := magic[9] version:u64 dtype:u8 num_sequences:u64 num_bounds:u64
//          lengths:i32[num_sequences] offsets_bytes:i64[num_sequences]
//          document_bounds:i64[num_bounds]
//
// num_bounds is the number of documents plus one: the bounds start with 0. Little-endian, unpadded,
// as in Megatron-LM core/datasets/indexed_dataset.py. Lengths are written where they stay; bounds
// go to a file of their own, since where they start is known at the end only.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/pair/dataset_counts.h"
#include "indexed_dataset/format/pair/dtype.h"
#include "indexed_dataset/format/pair/index_view.h"

namespace weft {

class SharedPairWriter {
 public:
  // Opens the three files, making those that are not there (all must be there without `make`); what
  // they hold stays. Throws std::system_error.
  SharedPairWriter(const std::filesystem::path& bin, const std::filesystem::path& idx,
                   const std::filesystem::path& bounds, TokenType type, bool make = true);

  // Writes documents behind `before`: tokens in the file's type, the tokens of each sequence (> 0),
  // the sequences of each document (0: an empty one). Thread-safe. Equal arguments write equal
  // bytes, so a piece may be written again. Throws std::system_error; std::logic_error if bytes,
  // lengths and documents do not fit each other.
  void write(const DatasetCounts& before, std::span<const std::byte> tokens,
             std::span<const int32_t> sequence_lengths,
             std::span<const int32_t> document_sequences);
  // The same in steps, for documents that need not be in memory as a whole. That the steps fit each
  // other is up to the caller.
  void write_tokens(int64_t first_token, std::span<const std::byte> tokens);
  void write_lengths(int64_t first_sequence, std::span<const int32_t> sequence_lengths);
  void write_bounds(const DatasetCounts& before, std::span<const int32_t> document_sequences);

  // Makes what was written so far survive a power cut.
  void sync();

  // Completes .bin and .idx, when every piece of `total` is written, by whomever, in steps that
  // several processes can share: one prepares, then all complete the index in ranges, in any order,
  // each from the counts before its first document to those behind its last. The files get their
  // sizes, the .idx its header. What was lost of them reads as zeros: nothing is checked. May be
  // repeated after an interruption.
  void prepare(const DatasetCounts& total);
  // Copies the lengths and bounds of a range from where write() left them to offsets and bounds in
  // the .idx. `see` is shown everything that is read or written. Thread-safe.
  struct SeeIndex {
    std::function<void(std::span<const int32_t>)> lengths = {};  // read
    std::function<void(std::span<const int64_t>)> offsets = {};  // written
    std::function<void(std::span<const int64_t>)> bounds = {};   // read and written
  };
  void write_index(const DatasetCounts& total, const DatasetCounts& begin, const DatasetCounts& end,
                   const SeeIndex& see, const std::function<void()>& check = {});
  void sync_index() { idx_.sync(); }

  // The begin of an .idx, and where its parts begin.
  static std::string index_header(const DatasetCounts& total, TokenType type);
  static int64_t offsets_at(const DatasetCounts& total) {
    return kIndexHeaderBytes + 4 * total.num_sequences;
  }
  static int64_t bounds_at(const DatasetCounts& total) {
    return offsets_at(total) + 8 * total.num_sequences;
  }
  static int64_t index_bytes(const DatasetCounts& total) {
    return bounds_at(total) + 8 * (total.num_documents + 1);
  }

  static DatasetCounts counts_of(std::span<const int32_t> sequence_lengths,
                                 std::span<const int32_t> document_sequences);

 private:
  void write_offsets(const DatasetCounts& total, const DatasetCounts& begin,
                     const DatasetCounts& end, const SeeIndex& see,
                     const std::function<void()>& check);
  void copy_bounds(const DatasetCounts& total, const DatasetCounts& begin, const DatasetCounts& end,
                   const SeeIndex& see, const std::function<void()>& check);
  void preallocate_for(int64_t end_bytes);

  TokenType type_;
  OutputFile bin_, idx_, bounds_;
  std::atomic<int64_t> allocated_bytes_{0};  // of .bin
};

}  // namespace weft
