#include "indexed_dataset/format/merge/merge_pairs.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/pair/shared_pair_writer.h"
#include "indexed_dataset/format/sidecars/documents.h"

namespace weft {
namespace {

[[noreturn]] void throw_damaged(const DatasetReader& reader, const std::string& what) {
  throw std::runtime_error(reader.prefix().string() + ".idx: " + what +
                           ": the index is damaged (weft-data verify shows all of it)");
}

// Values written one after another at a place of a file.
class Int64Writer {
 public:
  Int64Writer(OutputFile& file, int64_t offset_bytes) : file_(file), at_(offset_bytes) {}
  void add(int64_t value) {
    values_.push_back(value);
    if (values_.size() == 1 << 17) flush();
  }
  void flush() {
    crc_.add(std::as_bytes(std::span(values_)));
    file_.write_at(values_.data(), 8 * values_.size(), at_);
    at_ += static_cast<int64_t>(8 * values_.size());
    values_.clear();
  }
  const Crc32& crc() const { return crc_; }  // of what was flushed

 private:
  OutputFile& file_;
  int64_t at_;
  std::vector<int64_t> values_;
  Crc32 crc_;
};

}  // namespace

void PairMerge::drop(const std::vector<int64_t>& documents, Part& part) {
  const DatasetReader& reader = part.reader;
  const int64_t token_bytes = size_bytes(reader.token_type());
  for (const int64_t document : documents) {
    const auto [first, last] = Documents(reader).sequences(document);
    part.documents.add(document, document + 1);
    part.sequences.add(first, last);
    if (first == last) continue;
    const int64_t begin = reader.offset_bytes(first);
    const int64_t end = reader.offset_bytes(last - 1) + reader.length(last - 1) * token_bytes;
    if (begin < 0 || end < begin || end > std::ssize(reader.bin_bytes()))
      throw_damaged(reader, "document " + std::to_string(document) + " is not within the .bin");
    part.bin_bytes.add(begin, end);
  }
}

PairMerge::PairMerge(const std::vector<std::filesystem::path>& prefixes,
                     const std::vector<std::vector<int64_t>>& dropped) {
  bool any_with = false, any_without = false;
  for (const std::filesystem::path& prefix : prefixes) {
    DatasetReader reader(prefix);
    if (parts_.empty()) type_ = reader.token_type();
    if (reader.token_type() != type_) {
      throw std::runtime_error(prefix.string() + ".idx: its tokens are " +
                               name_of(reader.token_type()) + ", those of " + prefixes[0].string() +
                               ".idx are " + name_of(type_) +
                               ": datasets of different token types cannot be merged; tokenize one "
                               "of them anew (--dtype)");
    }
    const bool has_bounds = reader.num_documents() > 0 || reader.num_sequences() == 0;
    any_with |= reader.num_documents() > 0;
    any_without |= !has_bounds;
    parts_.push_back({std::move(reader), has_bounds, 0, 0, 0, 0, {}, {}, {}});
    if (!dropped.empty()) drop(dropped[parts_.size() - 1], parts_.back());
  }
  has_bounds_ = any_with || !any_without;
  for (Part& part : parts_) {
    part.sequences_before = num_sequences_;
    part.documents_before = num_documents_;
    part.bin_bytes_before = bin_bytes_;
    part.num_documents = part.has_bounds ? part.reader.num_documents()
                         : has_bounds_   ? part.reader.num_sequences()
                                         : 0;
    if (has_bounds_) part.num_documents -= part.documents.count();
    num_sequences_ += part.reader.num_sequences() - part.sequences.count();
    num_documents_ += part.num_documents;
    bin_bytes_ += part.num_tokens() * size_bytes(type_);
  }
}

int64_t PairMerge::idx_bytes() const {
  return kIndexHeaderBytes + 12 * num_sequences_ + 8 * (num_documents_ + 1);
}

PairMerge::Written PairMerge::write(const std::filesystem::path& bin_path,
                                    const std::filesystem::path& idx_path, int num_threads,
                                    const SeePiece& see) const {
  struct Piece {
    size_t part_idx;
    int64_t offset_bytes, size_bytes;
    Crc32 crc;
  };
  std::vector<Piece> pieces;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const int64_t part_bytes = parts_[i].reader.num_tokens() * size_bytes(type_);
    for (int64_t at = 0; at < part_bytes; at += kPieceBytes)
      pieces.push_back({i, at, std::min(kPieceBytes, part_bytes - at), {}});
  }
  OutputFile bin(bin_path), idx(idx_path);
  bin.truncate(bin_bytes_);
  idx.truncate(idx_bytes());
  // Indexes first: a damaged one ends the work before the long copies.
  std::vector<IndexPiece> indexes(parts_.size());
  parallel_for(std::ssize(parts_), num_threads, [&](int64_t i) {
    indexes[static_cast<size_t>(i)] = write_index_of(parts_[static_cast<size_t>(i)], idx);
  });
  // Every byte passes through memory: a copy in the kernel would leave nothing to compare with.
  parallel_for(std::ssize(pieces), num_threads, [&](int64_t i) {
    Piece& piece = pieces[static_cast<size_t>(i)];
    const Part& part = parts_[piece.part_idx];
    const auto bytes = part.reader.bin_bytes().subspan(static_cast<size_t>(piece.offset_bytes),
                                                       static_cast<size_t>(piece.size_bytes));
    see(piece.part_idx, piece.offset_bytes, bytes);
    const auto write = [&](int64_t begin, int64_t end, int64_t num_dropped) {
      const auto kept = bytes.subspan(static_cast<size_t>(begin - piece.offset_bytes),
                                      static_cast<size_t>(end - begin));
      piece.crc.add(kept);
      bin.write_at(kept.data(), kept.size(), part.bin_bytes_before + begin - num_dropped);
    };
    part.bin_bytes.for_each_kept(piece.offset_bytes, piece.offset_bytes + piece.size_bytes, write);
  });
  Written written;
  for (const Piece& piece : pieces) written.bin.append(piece.crc);
  written.idx = write_header(idx);
  for (const IndexPiece& index : indexes) written.idx.append(index.lengths);
  for (const IndexPiece& index : indexes) written.idx.append(index.offsets);
  const int64_t first_bound = 0;
  idx.write_at(&first_bound, 8, kIndexHeaderBytes + 12 * num_sequences_);
  written.idx.append(Crc32::of(std::as_bytes(std::span(&first_bound, 1))));
  for (const IndexPiece& index : indexes) written.idx.append(index.bounds);
  for (OutputFile* file : {&bin, &idx}) {
    file->sync();
    file->close();
  }
  return written;
}

PairMerge::IndexPiece PairMerge::write_index_of(const Part& part, OutputFile& file) const {
  const DatasetReader& reader = part.reader;
  const int64_t num_sequences = reader.num_sequences();
  const int64_t lengths_at = kIndexHeaderBytes, offsets_at = lengths_at + 4 * num_sequences_,
                bounds_at = offsets_at + 8 * num_sequences_;
  IndexPiece piece;
  part.sequences.for_each_kept(0, num_sequences, [&](int64_t begin, int64_t end, int64_t dropped) {
    const std::span lengths(reader.lengths().address(begin),
                            static_cast<size_t>(4 * (end - begin)));
    piece.lengths.add(lengths);
    file.write_at(lengths.data(), lengths.size(),
                  lengths_at + 4 * (part.sequences_before + begin - dropped));
  });

  int64_t offset_bytes = 0;
  for (int64_t i = 0; i < num_sequences; ++i) {
    // Together with the reader's check of the last one, this keeps the sum within the .bin.
    if (reader.length(i) < 0 || reader.offset_bytes(i) != offset_bytes)
      throw_damaged(reader, "length or offset of sequence " + std::to_string(i) +
                                " does not fit the sequences before it");
    offset_bytes += reader.length(i) * size_bytes(type_);
  }
  Int64Writer offsets(file, offsets_at + 8 * part.sequences_before);
  int64_t new_offset_bytes = part.bin_bytes_before;
  part.sequences.for_each_kept(0, num_sequences, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      offsets.add(new_offset_bytes);
      new_offset_bytes += reader.length(i) * size_bytes(type_);
    }
  });
  offsets.flush();
  piece.offsets = offsets.crc();

  if (!has_bounds_) return piece;
  const int64_t num_documents = part.num_documents + part.documents.count();
  const auto bound_at = [&](int64_t i) { return part.has_bounds ? reader.document_bound(i) : i; };
  for (int64_t i = 1, last = 0; i <= num_documents; ++i) {
    const int64_t bound = bound_at(i);
    if (bound < last || bound > num_sequences || (i == num_documents && bound != num_sequences)) {
      throw_damaged(reader, "document bound " + std::to_string(i) + " is " + std::to_string(bound));
    }
    last = bound;
  }
  // Bound k + 1 of the result ends document k.
  Int64Writer bounds(file, bounds_at + 8 * (part.documents_before + 1));
  int64_t new_bound = part.sequences_before;
  part.documents.for_each_kept(0, num_documents, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) bounds.add(new_bound += bound_at(i + 1) - bound_at(i));
  });
  bounds.flush();
  piece.bounds = bounds.crc();
  return piece;
}

Crc32 PairMerge::write_header(OutputFile& file) const {
  const std::string header =
      SharedPairWriter::index_header({num_documents_, num_sequences_, 0}, type_);
  file.write_at(header.data(), header.size(), 0);
  return Crc32::of(std::as_bytes(std::span(header)));
}

}  // namespace weft
