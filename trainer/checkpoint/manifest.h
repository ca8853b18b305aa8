// manifest.json of a checkpoint: it tells which file holds which piece of which tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/checkpoint/checkpoint_info.h"
#include "trainer/checkpoint/tensor_piece.h"

namespace weft {

// A piece of a tensor as it lies in a file. One rank may hold several pieces of a tensor, so an
// entry of the file has a name of its own, `key`.
struct StoredPiece {
  TensorPiece piece;
  std::string file, key, dtype;
  uint64_t xxh3 = 0;  // of the piece's bytes
};

struct Manifest {
  CheckpointInfo info;
  std::vector<StoredPiece> pieces;
};

// The part of a manifest that a rank sends to the first one. from_text() throws what JSON throws.
std::string pieces_to_text(const std::vector<StoredPiece>& pieces);
std::vector<StoredPiece> pieces_from_text(std::string_view text);

// Returns JSON whose last field is the XXH3 checksum of everything before it.
std::string to_json(const Manifest& manifest);
// Throws std::runtime_error, which names `path`, if the file is no manifest, or has another format,
// and ChecksumMismatch if it was changed since it was written. No number of the result is outside
// of its range, every file is a plain name, and pieces lie within their tensors.
Manifest read_manifest(const std::filesystem::path& path);

// Returns the manifest of a checkpoint. Throws std::runtime_error if there is none, or one of
// another iteration, and what read_manifest() throws.
Manifest manifest_of(const std::filesystem::path& dir, int64_t iteration);

// Returns why a checkpoint cannot be loaded, or "" where its manifest and its files are whole. The
// checksums of the tensors are verified when these are loaded.
std::string problem_of_checkpoint(const std::filesystem::path& dir, int64_t iteration);

// Tells a checkpoint that has lost something since it was written from one that cannot be judged.
//   kWhole      problem_of_checkpoint() finds nothing
//   kTorn       a file is missing or cut short, or the manifest's checksum is wrong
//   kUnknown    the manifest is another version's or another program's, or cannot be read
enum class Completeness { kWhole, kTorn, kUnknown };
Completeness completeness_of_checkpoint(const std::filesystem::path& dir, int64_t iteration);

}  // namespace weft
