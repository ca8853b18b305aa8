#include "indexed_dataset/format/pair/shared_pair_writer.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "indexed_dataset/format/pair/index_view.h"

namespace weft {
namespace {

// So many index entries are written at a time: far more than a call costs, far less than a worker
// holds.
constexpr int64_t kBlockEntries = 1 << 17;

template <typename T>
void write_values(OutputFile& file, std::span<const T> values, int64_t offset_bytes) {
  if (!values.empty()) file.write_at(values.data(), values.size_bytes(), offset_bytes);
}

OutputFile open(const std::filesystem::path& path, bool make) {
  return make ? OutputFile(path, /*keep=*/true) : OutputFile::existing(path);
}

}  // namespace

SharedPairWriter::SharedPairWriter(const std::filesystem::path& bin,
                                   const std::filesystem::path& idx,
                                   const std::filesystem::path& bounds, TokenType type, bool make)
    : type_(type), bin_(open(bin, make)), idx_(open(idx, make)), bounds_(open(bounds, make)) {}

DatasetCounts SharedPairWriter::counts_of(std::span<const int32_t> sequence_lengths,
                                          std::span<const int32_t> document_sequences) {
  return {std::ssize(document_sequences), std::ssize(sequence_lengths),
          std::accumulate(sequence_lengths.begin(), sequence_lengths.end(), int64_t{0})};
}

void SharedPairWriter::write(const DatasetCounts& before, std::span<const std::byte> tokens,
                             std::span<const int32_t> sequence_lengths,
                             std::span<const int32_t> document_sequences) {
  const DatasetCounts counts = counts_of(sequence_lengths, document_sequences);
  const int64_t num_sequences =
      std::accumulate(document_sequences.begin(), document_sequences.end(), int64_t{0});
  if (counts.num_tokens * weft::size_bytes(type_) != std::ssize(tokens) ||
      counts.num_sequences != num_sequences) {
    throw std::logic_error("SharedPairWriter: " + std::to_string(tokens.size()) +
                           " bytes of tokens, " + std::to_string(counts.num_sequences) +
                           " sequences and the documents' sequences do not fit each other");
  }
  write_tokens(before.num_tokens, tokens);
  write_lengths(before.num_sequences, sequence_lengths);
  write_bounds(before, document_sequences);
}

void SharedPairWriter::write_tokens(int64_t first_token, std::span<const std::byte> tokens) {
  const int64_t at = first_token * weft::size_bytes(type_);
  preallocate_for(at + std::ssize(tokens));
  write_values(bin_, tokens, at);
}

void SharedPairWriter::write_lengths(int64_t first_sequence,
                                     std::span<const int32_t> sequence_lengths) {
  write_values(idx_, sequence_lengths, kIndexHeaderBytes + 4 * first_sequence);
}

void SharedPairWriter::write_bounds(const DatasetCounts& before,
                                    std::span<const int32_t> document_sequences) {
  std::vector<int64_t> bounds;
  bounds.reserve(document_sequences.size());
  int64_t bound = before.num_sequences;
  for (const int32_t count : document_sequences) bounds.push_back(bound += count);
  write_values(bounds_, std::span<const int64_t>(bounds), 8 * (before.num_documents + 1));
}

// In steps that grow with the file, so that a small dataset asks for little.
void SharedPairWriter::preallocate_for(int64_t end_bytes) {
  int64_t allocated = allocated_bytes_;
  if (end_bytes <= allocated) return;
  const int64_t step = std::clamp(end_bytes, int64_t{1} << 20, int64_t{64} << 20);
  if (allocated_bytes_.compare_exchange_strong(allocated, end_bytes + step)) {
    bin_.preallocate(end_bytes, step);
  }
}

void SharedPairWriter::sync() {
  for (OutputFile* file : {&bin_, &idx_, &bounds_}) file->sync();
}

void SharedPairWriter::prepare(const DatasetCounts& total) {
  // An interrupted pass or a preallocation may have left bytes behind the ends.
  bin_.truncate(total.num_tokens * weft::size_bytes(type_));
  bounds_.truncate(8 * (total.num_documents + 1));
  idx_.truncate(offsets_at(total));
  idx_.truncate(index_bytes(total));
  const std::string header = index_header(total, type_);
  idx_.write_at(header.data(), header.size(), 0);
  const int64_t first_bound = 0;
  idx_.write_at(&first_bound, sizeof first_bound, bounds_at(total));
}

void SharedPairWriter::write_index(const DatasetCounts& total, const DatasetCounts& begin,
                                   const DatasetCounts& end, const SeeIndex& see,
                                   const std::function<void()>& check) {
  write_offsets(total, begin, end, see, check);
  copy_bounds(total, begin, end, see, check);
}

void SharedPairWriter::write_offsets(const DatasetCounts& total, const DatasetCounts& begin,
                                     const DatasetCounts& end, const SeeIndex& see,
                                     const std::function<void()>& check) {
  const InputFile written(idx_.path(), Links::kRefuse);
  std::vector<int32_t> lengths;
  std::vector<int64_t> offsets;
  int64_t offset_bytes = begin.num_tokens * weft::size_bytes(type_);
  for (int64_t i = begin.num_sequences; i < end.num_sequences; i += std::ssize(lengths)) {
    if (check) check();
    lengths.resize(static_cast<size_t>(std::min(kBlockEntries, end.num_sequences - i)));
    written.read_at(lengths.data(), 4 * lengths.size(), kIndexHeaderBytes + 4 * i);
    if (see.lengths) see.lengths(lengths);
    offsets.clear();
    for (const int32_t length : lengths) {
      offsets.push_back(offset_bytes);
      offset_bytes += int64_t{length} * weft::size_bytes(type_);
    }
    if (see.offsets) see.offsets(offsets);
    write_values(idx_, std::span<const int64_t>(offsets), offsets_at(total) + 8 * i);
  }
}

void SharedPairWriter::copy_bounds(const DatasetCounts& total, const DatasetCounts& begin,
                                   const DatasetCounts& end, const SeeIndex& see,
                                   const std::function<void()>& check) {
  const InputFile written(bounds_.path(), Links::kRefuse);
  std::vector<int64_t> bounds;
  for (int64_t i = begin.num_documents; i < end.num_documents; i += std::ssize(bounds)) {
    if (check) check();
    bounds.resize(static_cast<size_t>(std::min(kBlockEntries, end.num_documents - i)));
    written.read_at(bounds.data(), 8 * bounds.size(), 8 * (i + 1));
    if (see.bounds) see.bounds(bounds);
    write_values(idx_, std::span<const int64_t>(bounds), bounds_at(total) + 8 * (i + 1));
  }
}

std::string SharedPairWriter::index_header(const DatasetCounts& total, TokenType type) {
  std::string header(kIndexMagic);
  const auto add = [&header](const auto& value) {
    header.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  add(kIndexVersion);
  add(type);
  add(total.num_sequences);
  add(total.num_documents + 1);
  return header;
}

}  // namespace weft
