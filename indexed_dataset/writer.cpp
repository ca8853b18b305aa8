#include "indexed_dataset/writer.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <system_error>

#include "indexed_dataset/index_view.h"

namespace weft {
namespace {

// 1 MiB: far above what a write call costs by itself, and three of them do not matter beside a
// tokenizer's memory.
constexpr size_t kSpillBytes = 1 << 20;

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span<const T>(&value, 1));
}

}  // namespace

void DatasetWriter::Spill::append(std::span<const std::byte> bytes) {
  if (buffer.size() + bytes.size() > kSpillBytes) flush();
  if (bytes.size() > kSpillBytes) {
    file.append(bytes.data(), bytes.size());
  } else {
    buffer.insert(buffer.end(), bytes.begin(), bytes.end());
  }
}

void DatasetWriter::Spill::flush() {
  if (buffer.empty()) return;
  file.append(buffer.data(), buffer.size());
  buffer.clear();
}

DatasetWriter::DatasetWriter(const std::filesystem::path& prefix, TokenType type)
    : prefix_(prefix), type_(type) {
  try {
    bin_.file = OutputFile(with_suffix(".bin.part"));
    idx_.file = OutputFile(with_suffix(".idx.part"));
    bounds_.file = OutputFile(with_suffix(".idx.bounds.part"));
    // The lengths come first in the file, so they go to their final place; finish() fills in the
    // header.
    const char header[kIndexHeaderBytes] = {};
    idx_.append(std::as_bytes(std::span(header)));
    bounds_.append(bytes_of(int64_t{0}));
  } catch (...) {
    remove_parts();
    throw;
  }
}

DatasetWriter::~DatasetWriter() {
  if (!finished_) remove_parts();
}

void DatasetWriter::remove_parts() noexcept {
  for (const Spill* spill : {&bin_, &idx_, &bounds_}) {
    std::error_code ignored;
    if (!spill->file.path().empty()) std::filesystem::remove(spill->file.path(), ignored);
  }
}

void DatasetWriter::append_documents(std::span<const std::byte> tokens,
                                     std::span<const int32_t> lengths_tokens) {
  std::vector<int32_t> sequence_lengths, document_sequences;
  sequence_lengths.reserve(lengths_tokens.size());
  document_sequences.reserve(lengths_tokens.size());
  for (const int32_t length : lengths_tokens) {
    if (length != 0) sequence_lengths.push_back(length);
    document_sequences.push_back(length == 0 ? 0 : 1);
  }
  append_documents(tokens, sequence_lengths, document_sequences);
}

void DatasetWriter::append_documents(std::span<const std::byte> tokens,
                                     std::span<const int32_t> sequence_lengths,
                                     std::span<const int32_t> document_sequences) {
  int64_t sum_tokens = 0, sum_sequences = 0;
  for (const int32_t length : sequence_lengths) {
    if (length <= 0) throw std::logic_error("DatasetWriter: a sequence without tokens");
    sum_tokens += length;
  }
  for (const int32_t num_sequences : document_sequences) {
    if (num_sequences < 0) throw std::logic_error("DatasetWriter: negative number of sequences");
    sum_sequences += num_sequences;
  }
  if (sum_sequences != std::ssize(sequence_lengths)) {
    throw std::logic_error("DatasetWriter: " + std::to_string(sequence_lengths.size()) +
                           " sequences for documents of " + std::to_string(sum_sequences));
  }
  if (sum_tokens * weft::size_bytes(type_) != static_cast<int64_t>(tokens.size())) {
    throw std::logic_error("DatasetWriter: " + std::to_string(tokens.size()) +
                           " bytes of tokens for " + std::to_string(sum_tokens) + " tokens");
  }
  if (sealed_) throw std::logic_error("DatasetWriter: append after seal or finish");
  bin_.append(tokens);
  idx_.append(std::as_bytes(sequence_lengths));
  for (const int32_t num_sequences : document_sequences) {
    num_sequences_ += num_sequences;
    bounds_.append(bytes_of(num_sequences_));
  }
  num_documents_ += std::ssize(document_sequences);
  num_tokens_ += sum_tokens;
}

void DatasetWriter::append_offsets() {
  idx_.flush();
  const MappedFile written(idx_.file.path());
  const std::byte* lengths = written.bytes().data() + kIndexHeaderBytes;
  int64_t offset_bytes = 0;
  for (int64_t i = 0; i < num_sequences_; ++i) {
    idx_.append(bytes_of(offset_bytes));
    offset_bytes += load_unaligned<int32_t>(lengths + 4 * i) * weft::size_bytes(type_);
  }
}

void DatasetWriter::append_bounds() {
  bounds_.flush();
  const MappedFile written(bounds_.file.path());
  for (auto rest = written.bytes(); !rest.empty();) {
    const size_t count = std::min(rest.size(), kSpillBytes);
    idx_.append(rest.first(count));
    rest = rest.subspan(count);
  }
  idx_.flush();
}

void DatasetWriter::seal() {
  sealed_ = true;
  append_offsets();
  append_bounds();
  std::vector<std::byte> header;
  const auto add = [&header](std::span<const std::byte> bytes) {
    header.insert(header.end(), bytes.begin(), bytes.end());
  };
  add(std::as_bytes(std::span(kIndexMagic)));
  add(bytes_of(kIndexVersion));
  add(bytes_of(type_));
  add(bytes_of(num_sequences_));
  add(bytes_of(num_documents_ + 1));
  idx_.file.write_at(header.data(), header.size(), 0);

  bin_.flush();
  for (Spill* spill : {&bin_, &idx_}) {
    spill->file.sync();
    spill->file.close();
  }
}

void DatasetWriter::finish() {
  if (!sealed_) seal();
  // An older pair must not look complete with half of the new one.
  remove_file(with_suffix(".idx"));
  commit_rename(bin_.file.path(), with_suffix(".bin"));
  commit_rename(idx_.file.path(), with_suffix(".idx"));
  finished_ = true;
  std::error_code ignored;  // the pair is complete: a leftover part file is no reason to fail
  std::filesystem::remove(bounds_.file.path(), ignored);
}

std::filesystem::path DatasetWriter::with_suffix(const char* suffix) const {
  return prefix_.string() + suffix;
}

}  // namespace weft
