#include "trainer/checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/format/soundness/xxh3.h"
#include "kernels/numbers/elements.h"
#include "trainer/checkpoint/checkpoint_folder.h"

namespace weft {

namespace fs = std::filesystem;

namespace {

// Returns the type of the elements of a stored piece, if a model can have it.
std::optional<DType> stored_type(const StoredPiece& stored) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    if (stored.dtype == safetensors_dtype(type)) return type;
  }
  return std::nullopt;
}

// "model/X" may come from its fp32 master and the other way round.
std::string other_name(std::string_view name) {
  constexpr std::string_view kModel = "model/", kMaster = "optimizer/master/";
  if (name.starts_with(kModel))
    return std::string(kMaster) + std::string(name.substr(kModel.size()));
  if (name.starts_with(kMaster))
    return std::string(kModel) + std::string(name.substr(kMaster.size()));
  return "";
}

}  // namespace

CheckpointReader::CheckpointReader(const fs::path& dir, int64_t iteration)
    : folder_(checkpoint_folder(dir, iteration)), manifest_(manifest_of(dir, iteration)) {
  for (size_t i = 0; i < manifest_.pieces.size(); ++i)
    by_name_[manifest_.pieces[i].piece.name].push_back(i);
}

std::vector<std::string> CheckpointReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, pieces] : by_name_) names.push_back(name);
  return names;
}

const std::vector<int64_t>& CheckpointReader::shape_of(const std::string& name) const {
  return manifest_.pieces[by_name_.at(name).front()].piece.global_shape;
}

const std::vector<size_t>& CheckpointReader::pieces_for(const TensorPiece& want, DType type) const {
  const auto same_name = by_name_.find(want.name);
  const auto has_type = [&](const auto& found) {
    return manifest_.pieces[found->second.front()].dtype == safetensors_dtype(type);
  };
  if (same_name != by_name_.end() && has_type(same_name)) return same_name->second;
  const auto other = by_name_.find(other_name(want.name));
  if (other != by_name_.end()) return other->second;
  if (same_name != by_name_.end()) return same_name->second;
  const bool is_optimizers = want.name.starts_with("optimizer/");
  throw std::runtime_error(
      folder_.string() + " holds no tensor " + want.name +
      (is_optimizers ? "; load its weights alone with --finetune or --no-load-optim" : ""));
}

const SafetensorsFile& CheckpointReader::file_of(const fs::path& path, const std::string& name) {
  const std::lock_guard lock(mutex_);
  return files_.try_emplace(name, path).first->second;
}

bool CheckpointReader::is_first_use(const StoredPiece& stored) {
  const std::lock_guard lock(mutex_);
  return verified_.emplace(stored.file, stored.key).second;
}

std::span<const std::byte> CheckpointReader::bytes_of(const StoredPiece& stored) {
  const fs::path path = folder_ / stored.file;
  const SafetensorsFile& file = file_of(path, stored.file);
  const SafetensorsEntry* entry = file.find(stored.key);
  const std::optional<DType> type = stored_type(stored);
  if (!type) {
    throw std::runtime_error(path.string() + ": tensor " + stored.piece.name + " has type " +
                             stored.dtype);
  }
  if (entry == nullptr || entry->dtype != stored.dtype ||
      entry->end - entry->begin != stored.piece.count * size_bytes(*type)) {
    throw ChecksumMismatch(path.string() + ": tensor " + stored.piece.name +
                           " is not what the manifest says it is");
  }
  const std::span<const std::byte> bytes = file.bytes(*entry);
  if (is_first_use(stored) && XXH3_64bits(bytes.data(), bytes.size()) != stored.xxh3) {
    throw ChecksumMismatch(path.string() + ": the bytes of tensor " + stored.piece.name +
                           " are not those that were saved (checksum differs); "
                           "load another iteration with --ckpt-step");
  }
  return bytes;
}

void CheckpointReader::read(const TensorPiece& want, DType type, char* to) {
  read_pieces(pieces_for(want, type), want, type, to);
}

void CheckpointReader::read_as_stored(const TensorPiece& want, DType type, char* to) {
  read_pieces(by_name_.at(want.name), want, type, to);
}

void CheckpointReader::read_pieces(const std::vector<size_t>& pieces, const TensorPiece& want,
                                   DType type, char* to) {
  std::vector<std::pair<int64_t, int64_t>> found;  // the first element of each run, and its length
  for (const size_t idx : pieces) {
    const StoredPiece& stored = manifest_.pieces[idx];
    if (stored.piece.global_shape != want.global_shape) {
      throw std::runtime_error(folder_.string() + ": tensor " + stored.piece.name + " has shape " +
                               shape_text(stored.piece.global_shape) + ", this run needs " +
                               shape_text(want.global_shape));
    }
    for_each_common_run(stored.piece, want, [&](int64_t have_at, int64_t want_at, int64_t count) {
      const std::byte* from = bytes_of(stored).data();
      const DType from_type = *stored_type(stored);  // bytes_of() has checked it
      convert_elements(to + want_at * size_bytes(type), type,
                       from + have_at * size_bytes(from_type), from_type, /*from_stride=*/1, count);
      found.emplace_back(want_at, count);
    });
  }
  std::sort(found.begin(), found.end());
  int64_t end = 0;
  bool is_once = true;
  for (const auto& [first, count] : found) {
    is_once = is_once && first == end;
    end = first + count;
  }
  if (is_once && end == want.count) return;
  throw std::runtime_error(folder_.string() + ": a piece of tensor " + want.name +
                           " is missing, or double: its elements " + std::to_string(want.first) +
                           " to " + std::to_string(want.first + want.count - 1) +
                           " are not there once each");
}

}  // namespace weft
