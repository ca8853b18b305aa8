#include "indexed_dataset/format/pair/writer.h"

#include <stdexcept>
#include <string>
#include <system_error>

namespace weft {
namespace {

// 1 MiB: far above what a write call costs by itself, and it does not matter beside a tokenizer's
// memory.
constexpr size_t kPendingBytes = 1 << 20;

constexpr const char* kParts[] = {".bin.part", ".idx.part", ".idx.bounds.part"};

template <typename T>
void append_to(std::vector<T>& values, std::span<const T> more) {
  values.insert(values.end(), more.begin(), more.end());
}

}  // namespace

DatasetWriter::DatasetWriter(const std::filesystem::path& prefix, TokenType type)
    : prefix_(prefix), type_(type) {
  try {
    for (const char* part : kParts) remove_file(with_suffix(part));  // of a killed run
    files_.emplace(with_suffix(kParts[0]), with_suffix(kParts[1]), with_suffix(kParts[2]), type);
  } catch (...) {
    remove_parts();
    throw;
  }
}

DatasetWriter::~DatasetWriter() {
  if (!finished_) remove_parts();
}

void DatasetWriter::remove_parts() noexcept {
  for (const char* part : kParts) {
    std::error_code ignored;
    std::filesystem::remove(with_suffix(part), ignored);
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
  append_to(tokens_, tokens);
  append_to(sequence_lengths_, sequence_lengths);
  append_to(document_sequences_, document_sequences);
  counts_.add(SharedPairWriter::counts_of(sequence_lengths, document_sequences));
  if (tokens_.size() + 4 * (sequence_lengths_.size() + document_sequences_.size()) > kPendingBytes)
    flush();
}

void DatasetWriter::flush() {
  files_->write(written_, tokens_, sequence_lengths_, document_sequences_);
  written_ = counts_;
  tokens_.clear();
  sequence_lengths_.clear();
  document_sequences_.clear();
}

void DatasetWriter::seal() {
  sealed_ = true;
  flush();
  files_->finish(counts_);
}

void DatasetWriter::finish() {
  if (!sealed_) seal();
  files_.reset();
  // An older pair must not look complete with half of the new one.
  remove_file(with_suffix(".idx"));
  commit_rename(with_suffix(".bin.part"), with_suffix(".bin"));
  commit_rename(with_suffix(".idx.part"), with_suffix(".idx"));
  finished_ = true;
  std::error_code ignored;  // the pair is complete: a leftover part file is no reason to fail
  std::filesystem::remove(with_suffix(".idx.bounds.part"), ignored);
}

std::filesystem::path DatasetWriter::with_suffix(const char* suffix) const {
  return prefix_.string() + suffix;
}

}  // namespace weft
