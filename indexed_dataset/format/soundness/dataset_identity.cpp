#include "indexed_dataset/format/soundness/dataset_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/pair/reader.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "indexed_dataset/format/soundness/xxh3.h"

namespace weft {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kSampledPieceBytes = 1 << 20;
constexpr int64_t kMaxPieces = 64;
constexpr int64_t kMaxIdxBytesOfQuickCheck = 1 << 30;

// Returns the XXH3 of `num_pieces` pieces at equal distances; they cover the whole file where it
// has no more bytes.
uint64_t xxh3_of_pieces(const InputFile& file, int64_t num_pieces) {
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  std::vector<char> piece(static_cast<size_t>(std::min(kSampledPieceBytes, file.size_bytes())));
  const int64_t last_begin = std::max<int64_t>(0, file.size_bytes() - kSampledPieceBytes);
  for (int64_t i = 0; i < num_pieces; ++i) {
    const bool whole = num_pieces * kSampledPieceBytes >= file.size_bytes();
    // The product of a number below 2^53 and one below 64 fits.
    const int64_t begin = whole ? i * kSampledPieceBytes : last_begin * i / (num_pieces - 1);
    const int64_t end = std::min(begin + kSampledPieceBytes, file.size_bytes());
    if (begin >= end) break;
    file.read_at(piece.data(), static_cast<size_t>(end - begin), begin);
    XXH3_64bits_update(&hash, piece.data(), static_cast<size_t>(end - begin));
  }
  return XXH3_64bits_digest(&hash);
}

int64_t num_pieces_of(const InputFile& file) {
  return (file.size_bytes() + kSampledPieceBytes - 1) / kSampledPieceBytes;
}

// Constant-time opening (DatasetReader) checks the last sequence only. A run reads all lengths
// anyway, to make its samples.
void check_offsets(const DatasetReader& reader) {
  const int64_t token_bytes = size_bytes(reader.token_type());
  int64_t expected = 0;
  for (int64_t i = 0; i < reader.num_sequences(); ++i) {
    if (reader.length(i) < 0 || reader.offset_bytes(i) != expected) {
      throw std::runtime_error(fmt::format(
          "{}.idx: sequence {} has {} tokens from byte {} on, but the sequences before it end at "
          "byte {}: the index is damaged; weft-data verify tells more, weft-data repair may make "
          "it again",
          reader.prefix().string(), i, reader.length(i), reader.offset_bytes(i), expected));
    }
    expected += reader.length(i) * token_bytes;
  }
}

std::optional<uint64_t> xxh3_of_blocks(const fs::path& prefix, int64_t bin_bytes) {
  const auto checksums = read_block_checksums(checksums_path(prefix));
  if (!checksums) return std::nullopt;
  for (const FileChecksums& file : *checksums) {
    if (file.suffix != ".bin" || file.size_bytes != bin_bytes) continue;
    return XXH3_64bits(file.blocks.data(), file.blocks.size() * sizeof(uint64_t));
  }
  return std::nullopt;
}

// All but the prefix and the checksum of the index.
DatasetIdentity identity_without_idx(const DatasetReader& reader) {
  const fs::path& prefix = reader.prefix();
  const InputFile bin(prefix.string() + ".bin");
  DatasetIdentity identity;
  identity.num_documents = reader.num_documents();
  identity.num_sequences = reader.num_sequences();
  identity.num_tokens = reader.num_tokens();
  identity.bin_bytes = bin.size_bytes();
  identity.bin_xxh3 = xxh3_of_pieces(bin, std::min(kMaxPieces, num_pieces_of(bin)));
  identity.blocks_xxh3 = xxh3_of_blocks(prefix, bin.size_bytes());
  return identity;
}

uint64_t xxh3_of_idx(const fs::path& prefix) {
  const InputFile idx(prefix.string() + ".idx");
  return xxh3_of_pieces(idx, num_pieces_of(idx));
}

Json hex(uint64_t value) { return fmt::format("{:016x}", value); }

uint64_t from_hex(const Json& json) {
  const auto text = json.get<std::string>();
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{} || end != text.data() + text.size())
    throw std::runtime_error("bad checksum " + text);
  return value;
}

}  // namespace

int64_t bin_bytes_not_compared(const DatasetIdentity& dataset) {
  return std::max<int64_t>(0, dataset.bin_bytes - kMaxPieces * kSampledPieceBytes);
}

bool same_bytes(const DatasetIdentity& a, const DatasetIdentity& b) {
  if (a.blocks_xxh3 && b.blocks_xxh3 && *a.blocks_xxh3 != *b.blocks_xxh3) return false;
  return a.num_documents == b.num_documents && a.num_sequences == b.num_sequences &&
         a.num_tokens == b.num_tokens && a.bin_bytes == b.bin_bytes && a.idx_xxh3 == b.idx_xxh3 &&
         a.bin_xxh3 == b.bin_xxh3;
}

std::string describe(const DatasetIdentity& dataset) {
  return fmt::format("{} documents, {} tokens (XXH3 of .idx {:016x}, of .bin {:016x})",
                     dataset.num_documents, dataset.num_tokens, dataset.idx_xxh3, dataset.bin_xxh3);
}

DatasetIdentity identify_dataset(const fs::path& prefix) {
  const DatasetReader reader(prefix);
  check_offsets(reader);
  DatasetIdentity identity = identity_without_idx(reader);
  identity.prefix = fs::weakly_canonical(prefix).string();
  identity.idx_xxh3 = xxh3_of_idx(prefix);
  return identity;
}

void check_same_dataset(const fs::path& prefix, const DatasetIdentity& of_run) {
  const DatasetReader reader(prefix);
  DatasetIdentity found = identity_without_idx(reader);
  const bool is_small = fs::file_size(prefix.string() + ".idx") <= kMaxIdxBytesOfQuickCheck;
  found.idx_xxh3 = is_small ? xxh3_of_idx(prefix) : of_run.idx_xxh3;
  if (same_bytes(found, of_run)) return;
  throw std::runtime_error(
      fmt::format("the dataset {} was replaced or changed: the run read {}, and there are {} now; "
                  "put the old files back to see what the run saw",
                  prefix.string(), describe(of_run), describe(found)));
}

Json to_json(const DatasetIdentity& dataset) {
  Json json = {{"prefix", dataset.prefix},           {"documents", dataset.num_documents},
               {"sequences", dataset.num_sequences}, {"tokens", dataset.num_tokens},
               {"bin_bytes", dataset.bin_bytes},     {"idx_xxh3", hex(dataset.idx_xxh3)},
               {"bin_xxh3", hex(dataset.bin_xxh3)}};
  if (dataset.blocks_xxh3) json["blocks_xxh3"] = hex(*dataset.blocks_xxh3);
  return json;
}

DatasetIdentity dataset_identity_from_json(const Json& json) {
  DatasetIdentity identity;
  json.at("prefix").get_to(identity.prefix);
  identity.num_documents = json_integer_at(json, "documents");
  identity.num_sequences = json_integer_at(json, "sequences");
  identity.num_tokens = json_integer_at(json, "tokens");
  identity.bin_bytes = json_integer_at(json, "bin_bytes");
  identity.idx_xxh3 = from_hex(json.at("idx_xxh3"));
  identity.bin_xxh3 = from_hex(json.at("bin_xxh3"));
  if (json.contains("blocks_xxh3")) identity.blocks_xxh3 = from_hex(json["blocks_xxh3"]);
  return identity;
}

}  // namespace weft
