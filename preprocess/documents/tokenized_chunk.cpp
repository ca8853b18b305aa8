#include "preprocess/documents/tokenized_chunk.h"

#include <algorithm>
#include <numeric>

namespace weft {

using Output = TokenizedChunk::Output;

StoredSequences Output::stored() const {
  if (!stored_) return {};
  return {.tokens = &stored_->tokens.content(),
          .num_token_bytes = stored_->tokens.size_bytes(),
          .lengths = &stored_->lengths.content(),
          .num_sequences = stored_->num_sequences};
}

int64_t Output::num_tokens() const {
  return (stored_ ? stored_->num_tokens : 0) + std::ssize(tokens_16) + std::ssize(tokens_32);
}

int64_t Output::num_sequences() const {
  return (stored_ ? stored_->num_sequences : 0) + std::ssize(sequence_lengths);
}

DatasetCounts Output::counts() const {
  DatasetCounts counts = PlacedDatasetWriter::counts_of(sequence_lengths, document_sequences);
  if (stored_) {
    counts.num_sequences += stored_->num_sequences;
    counts.num_tokens += stored_->sum_lengths;
  }
  return counts;
}

int64_t Output::held_bytes() const {
  const size_t in_memory = token_bytes().size() + 4 * sequence_lengths.capacity() +
                           4 * document_sequences.capacity() + 8 * line_offsets.capacity() +
                           sizeof(Origin) * origins.capacity();
  const int64_t in_files =
      stored_ ? stored_->tokens.size_bytes() + stored_->lengths.size_bytes() : 0;
  return static_cast<int64_t>(in_memory) + in_files;
}

void Output::keep_small(const ChunkMemory& memory) {
  const size_t lengths_bytes = 4 * sequence_lengths.size();
  if (token_bytes().size() <= memory.max_output_bytes && lengths_bytes <= memory.max_output_bytes) {
    return;
  }
  if (!memory.make_scratch) return;
  if (!stored_) stored_ = std::make_shared<Stored>(memory);
  store_tokens(tokens_16);
  store_tokens(tokens_32);
  if (sequence_lengths.empty()) return;
  // The end-of-document token is added to the last one.
  const int32_t last = sequence_lengths.back();
  sequence_lengths.pop_back();
  stored_->lengths.append(sequence_lengths.data(), 4 * sequence_lengths.size());
  stored_->num_sequences += std::ssize(sequence_lengths);
  stored_->sum_lengths =
      std::accumulate(sequence_lengths.begin(), sequence_lengths.end(), stored_->sum_lengths);
  sequence_lengths.assign(1, last);
}

template <typename Id>
void Output::store_tokens(std::vector<Id>& tokens) {
  if (tokens.empty()) return;
  stored_->tokens.append(tokens.data(), sizeof(Id) * tokens.size());
  stored_->num_tokens += std::ssize(tokens);
  tokens.clear();
}

void Output::cut(int64_t num_tokens, int64_t num_sequences) {
  const int64_t num_stored_tokens = stored_ ? stored_->num_tokens : 0;
  const int64_t num_stored_sequences = stored_ ? stored_->num_sequences : 0;
  const auto in_memory = [](int64_t wanted, int64_t num_stored, size_t size) {
    return std::min(size, static_cast<size_t>(std::max<int64_t>(0, wanted - num_stored)));
  };
  tokens_16.resize(in_memory(num_tokens, num_stored_tokens, tokens_16.size()));
  tokens_32.resize(in_memory(num_tokens, num_stored_tokens, tokens_32.size()));
  sequence_lengths.resize(in_memory(num_sequences, num_stored_sequences, sequence_lengths.size()));
  if (num_tokens < num_stored_tokens) {
    stored_->tokens.cut(stored_->tokens.size_bytes() / num_stored_tokens * num_tokens);
    stored_->num_tokens = num_tokens;
  }
  if (num_sequences < num_stored_sequences) {
    stored_->lengths.cut(4 * num_sequences);
    stored_->num_sequences = num_sequences;
    stored_->sum_lengths = num_tokens;
  }
}

void Output::clear() {
  tokens_16.clear();
  tokens_32.clear();
  sequence_lengths.clear();
  document_sequences.clear();
  line_offsets.clear();
  origins.clear();
  stored_.reset();
}

void TokenizedChunk::clear(size_t num_keys) {
  outputs.resize(num_keys);
  for (Output& output : outputs) output.clear();
  num_lines = num_documents = num_empty_documents = num_tokens = num_replaced_surrogates = 0;
  bad_line_counts = {};
  bad_lines.clear();
}

}  // namespace weft
