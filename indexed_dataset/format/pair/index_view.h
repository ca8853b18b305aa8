// The .idx file as bytes: its layout (drawn in shared_pair_writer.h) and unaligned reads from it.
// For rooms that read or write such files themselves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "indexed_dataset/base/storage/little_endian.h"
#include "indexed_dataset/format/pair/dtype.h"

namespace weft {

inline constexpr std::string_view kIndexMagic{"MMIDIDX\0\0", 9};
inline constexpr uint64_t kIndexVersion = 1;
inline constexpr int64_t kIndexHeaderBytes = 34;

// The arrays of an index that lies in memory; valid while that memory lives. Positions are not
// checked.
struct IndexView {
  uint8_t type_code = 0;
  TokenType type{};  // of tokens: the code's meaning is another one in IntegerRows
  int64_t num_sequences = 0;
  int64_t num_bounds = 0;
  const std::byte* lengths = nullptr;
  const std::byte* offsets = nullptr;
  const std::byte* bounds = nullptr;

  int32_t length(int64_t idx) const { return load_number<int32_t>(lengths + 4 * idx); }
  void prefetch(int64_t idx) const {
    __builtin_prefetch(lengths + 4 * idx);
    __builtin_prefetch(offsets + 8 * idx);
  }
  int64_t offset_bytes(int64_t idx) const { return load_number<int64_t>(offsets + 8 * idx); }
  int64_t bound(int64_t idx) const { return load_number<int64_t>(bounds + 8 * idx); }
};

// The document that holds a sequence: the one whose end is the first bound above it. Without bounds
// (num_bounds 1) each sequence is one document.
int64_t document_of_sequence(const IndexView& index, int64_t sequence_idx);

// Checks magic, version and that the size fits the counts, not the type. `path` is for messages.
// Throws std::runtime_error.
IndexView parse_layout(std::span<const std::byte> bytes, const std::filesystem::path& path);
// Checks the token type, too.
IndexView parse_index(std::span<const std::byte> bytes, const std::filesystem::path& path);

}  // namespace weft
