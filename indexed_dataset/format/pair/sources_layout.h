// The layout of PREFIX.sources: from which line of the corpus each document of a pair came.
//
//   sources := header entries footer            little-endian, unpadded
//   header  := magic[8]="WEFTSRC1" version:u32=3 has_origins:u32 num_documents:u64 num_inputs:u64
//              footer_bytes:u64 zero[24]         64 bytes
//   entry   := input_idx:u32 locator:u64               without origins: 12 bytes, at 64 + 12 * i
//            | input_idx:u32 locator:u64 origin[32]    with origins: 44 bytes, at 64 + 44 * i
//   footer  := {"inputs": [{"path": "a.jsonl.zst", "locator": "byte"}, ...]}   JSON, to the end
//
// A locator is where in its input a document is: the byte at which its line begins, in the
// decompressed text, or the number of its row from 0.
//
// indexed_dataset/format/sidecars/source_map.h says what the fields mean, writes the file and reads
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

inline constexpr std::string_view kSourcesMagic = "WEFTSRC1";
inline constexpr uint32_t kSourcesVersion = 3;
inline constexpr int64_t kSourceHeaderBytes = 64;
inline constexpr size_t kOriginBytes = 32;

// Places of the header's fields.
inline constexpr size_t kSourcesVersionAt = 8, kHasOriginsAt = 12, kNumSourcesAt = 16,
                        kNumInputsAt = 24, kFooterBytesAt = 32;

constexpr int64_t source_entry_bytes(bool has_origins) {
  return 12 + (has_origins ? static_cast<int64_t>(kOriginBytes) : 0);
}
// Returns the offset of a document's entry in the file.
constexpr int64_t source_entry_at(int64_t document_idx, bool has_origins = false) {
  return kSourceHeaderBytes + source_entry_bytes(has_origins) * document_idx;
}

}  // namespace weft
