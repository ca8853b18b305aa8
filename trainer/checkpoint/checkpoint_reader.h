// Reads tensors of a checkpoint piece by piece, in any type and cut in any way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/numbers/tensor.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/safetensors.h"

namespace weft {

class CheckpointReader {
 public:
  // Reads the manifest; files are mapped when they are needed. Throws as manifest_of().
  CheckpointReader(const std::filesystem::path& dir, int64_t iteration);

  const CheckpointInfo& info() const { return manifest_.info; }
  // Returns the names of all tensors, in ascending order.
  std::vector<std::string> names() const;
  // Returns the global shape of a tensor. Throws std::out_of_range if there is none of that name.
  const std::vector<int64_t>& shape_of(const std::string& name) const;

  // Writes the elements of `want`, as fp32, bf16 or fp16, to `to`. Where they are stored in the
  // other type, "model/X" is taken from "optimizer/master/X", and the other way round, if there is
  // one. Throws std::runtime_error if the checkpoint does not hold each of them once,
  // ChecksumMismatch if they are damaged. Thread-safe.
  void read(const TensorPiece& want, DType type, char* to);
  // The same from the tensor of that very name.
  void read_as_stored(const TensorPiece& want, DType type, char* to);

 private:
  const std::vector<size_t>& pieces_for(const TensorPiece& want, DType type) const;
  void read_pieces(const std::vector<size_t>& pieces, const TensorPiece& want, DType type,
                   char* to);
  std::span<const std::byte> bytes_of(const StoredPiece& stored);
  const SafetensorsFile& file_of(const std::filesystem::path& path, const std::string& name);
  // Returns whether this is the first use of a piece's bytes, whose checksum is then checked.
  bool is_first_use(const StoredPiece& stored);

  std::filesystem::path folder_;
  Manifest manifest_;
  std::map<std::string, std::vector<size_t>, std::less<>> by_name_;  // places in manifest_.pieces
  std::mutex mutex_;                                                 // of what follows
  std::map<std::string, SafetensorsFile> files_;
  std::set<std::pair<std::string, std::string>> verified_;  // (file, key)
};

}  // namespace weft
