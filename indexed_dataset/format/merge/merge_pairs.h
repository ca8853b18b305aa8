// Several .bin/.idx pairs made into one, as Megatron's IndexedDatasetBuilder.add_index does it:
// sequences in order, offsets computed anew, the document bounds of each part moved by the
// sequences before it and without their leading 0. tools/merge_datasets.py;
// core/datasets/indexed_dataset.py.
//
// Old merge tools lost the document bounds (the .idx holds one, 0). Parts without bounds only give
// a result without bounds, as there. Among parts that have them, each sequence of a part without is
// one document: Megatron would make it a part of the next document, or of none.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "indexed_dataset/base/storage/crc32.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/merge/dropped_ranges.h"
#include "indexed_dataset/format/pair/reader.h"

namespace weft {

class PairMerge {
 public:
  struct Part {
    DatasetReader reader;
    bool has_bounds;
    int64_t num_documents;  // in the result
    // Counts of everything that stands before it in the result.
    int64_t sequences_before, documents_before, bin_bytes_before;
    // These ranges of it are left out. Where it has no bounds, each of its sequences is a document.
    DroppedRanges documents, sequences, bin_bytes;

    int64_t num_tokens() const {  // in the result
      return reader.num_tokens() - bin_bytes.count() / size_bytes(reader.token_type());
    }
  };

  // Opens all parts, in this order. `dropped` has, if it is not empty, for each part the documents
  // that are left out, in order. Throws as DatasetReader, and std::runtime_error if their token
  // types differ, or if the index of a part with such documents is damaged.
  explicit PairMerge(const std::vector<std::filesystem::path>& prefixes,
                     const std::vector<std::vector<int64_t>>& dropped = {});

  const std::vector<Part>& parts() const { return parts_; }
  TokenType token_type() const { return type_; }
  int64_t num_sequences() const { return num_sequences_; }
  int64_t num_documents() const { return num_documents_; }
  int64_t num_tokens() const { return bin_bytes_ / size_bytes(type_); }
  bool has_bounds() const { return has_bounds_; }
  // Sizes of the files that write() makes.
  int64_t bin_bytes() const { return bin_bytes_; }
  int64_t idx_bytes() const;

  static constexpr int64_t kPieceBytes = int64_t{16} << 20;
  // Sees each piece of a part's .bin before it is written, from any thread: it begins at a multiple
  // of kPieceBytes. What it throws ends the work.
  using SeePiece =
      std::function<void(size_t part_idx, int64_t offset_bytes, std::span<const std::byte> bytes)>;
  struct Written {
    Crc32 bin, idx;
  };

  // Writes and syncs both files under these names; returns checksums of what they must hold, taken
  // in memory. Throws std::system_error; std::runtime_error if the index of a part is damaged.
  Written write(const std::filesystem::path& bin_path, const std::filesystem::path& idx_path,
                int num_threads, const SeePiece& see) const;

 private:
  static void drop(const std::vector<int64_t>& documents, Part& part);

  struct IndexPiece {
    Crc32 lengths, offsets, bounds;
  };
  IndexPiece write_index_of(const Part& part, OutputFile& file) const;
  Crc32 write_header(OutputFile& file) const;

  std::vector<Part> parts_;
  TokenType type_ = TokenType::kUInt16;
  bool has_bounds_ = true;
  int64_t num_sequences_ = 0, num_documents_ = 0, bin_bytes_ = 0;
};

}  // namespace weft
