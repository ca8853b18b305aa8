#include "preprocess/documents/written_checksums.h"

#include <vector>

#include "indexed_dataset/format/sidecars/source_map.h"

namespace weft {

void WrittenChecksums::append(const WrittenChecksums& next) {
  tokens.append(next.tokens);
  lengths.append(next.lengths);
  documents.append(next.documents);
  sources.append(next.sources);
}

WrittenChecksums written_checksums(const Batch::Output& output, int32_t input_idx) {
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
