#include "preprocess/documents/batch.h"

#include <algorithm>

#include "indexed_dataset/format/sidecars/source_map.h"

namespace weft {

using Output = Batch::Output;

int64_t Output::held_bytes() const {
  const size_t in_memory = token_bytes().size() + 4 * sequence_lengths.capacity() +
                           4 * document_sequences.capacity() + 8 * locators.capacity() +
                           sizeof(Origin) * origins.capacity();
  return static_cast<int64_t>(in_memory);
}

void Output::cut(int64_t num_tokens, int64_t num_sequences) {
  tokens_16.resize(std::min(static_cast<size_t>(num_tokens), tokens_16.size()));
  tokens_32.resize(std::min(static_cast<size_t>(num_tokens), tokens_32.size()));
  sequence_lengths.resize(static_cast<size_t>(num_sequences));
}

void Output::clear() {
  tokens_16.clear();
  tokens_32.clear();
  sequence_lengths.clear();
  document_sequences.clear();
  locators.clear();
  origins.clear();
}

void Batch::clear(size_t num_keys) {
  outputs.resize(num_keys);
  for (Output& output : outputs) output.clear();
  num_lines = num_documents = num_empty_documents = num_tokens = num_replaced_surrogates =
      num_dropped_bytes = 0;
  left_out.by_comparison.clear();
  bad_line_counts = {};
  bad_lines.clear();
}

void WrittenChecksums::append(const WrittenChecksums& next) {
  tokens.append(next.tokens);
  lengths.append(next.lengths);
  documents.append(next.documents);
  sources.append(next.sources);
}

WrittenChecksums written_checksums(const Output& output, int32_t input_idx) {
  WrittenChecksums checksums;
  checksums.tokens.add(output.token_bytes());
  checksums.lengths.add(std::as_bytes(std::span(output.sequence_lengths)));
  checksums.documents.add(std::as_bytes(std::span(output.document_sequences)));
  const bool has_origins = !output.origins.empty();
  std::vector<std::byte> entries;
  for (size_t i = 0; i < output.locators.size(); ++i) {
    append_source_entry(entries,
                        {static_cast<uint32_t>(input_idx), output.locators[i],
                         has_origins ? output.origins[i] : Origin{}},
                        has_origins);
  }
  checksums.sources.add(entries);
  return checksums;
}

}  // namespace weft
