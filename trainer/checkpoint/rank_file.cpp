#include "trainer/checkpoint/rank_file.h"

#include <map>

#include "indexed_dataset/base/process/crash_point.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/soundness/xxh3.h"
#include "trainer/checkpoint/safetensors.h"

namespace weft {
namespace {

// The disk writes each step while the next one is copied and hashed, and the sync at the end waits
// for no more than the maximum.
constexpr int64_t kWriteOutStepBytes = 16 << 20, kMaxUnwrittenBytes = 256 << 20;

// A whole slice has its own shape in the file, so that other programs can read it; other pieces are
// flat.
std::vector<int64_t> shape_in_file(const TensorPiece& piece) {
  if (piece.count != slice_elements(piece)) return {piece.count};
  std::vector<int64_t> shape = piece.global_shape;
  if (piece.split_dim >= 0) shape[static_cast<size_t>(piece.split_dim)] = piece.end - piece.begin;
  return shape;
}

}  // namespace

std::string file_of_rank(int rank) {
  char name[40];
  std::snprintf(name, sizeof name, "state_%05d.safetensors", rank);
  return name;
}

TensorPiece piece_of(const StateTensor& tensor) {
  return {tensor.name,  tensor.global_shape,         tensor.split_dim, tensor.begin, tensor.end,
          tensor.first, tensor.tensor.num_elements()};
}

std::vector<StoredPiece> write_rank_file(const std::filesystem::path& path,
                                         const std::vector<StateTensor>& tensors,
                                         const ReadTensor& read,
                                         const std::function<void(int64_t num_bytes)>& on_written) {
  std::vector<SafetensorsEntry> entries;
  std::vector<StoredPiece> pieces;
  std::map<std::string, int> num_of_name;
  for (const StateTensor& tensor : tensors) {
    StoredPiece& stored = pieces.emplace_back();
    stored.piece = piece_of(tensor);
    stored.file = path.filename().string();
    const int number = ++num_of_name[tensor.name];
    stored.key = number == 1 ? tensor.name : tensor.name + "#" + std::to_string(number);
    stored.dtype = safetensors_dtype(tensor.tensor.dtype());
    entries.push_back({stored.key, stored.dtype, shape_in_file(stored.piece), 0, 0});
  }
  OutputFile file(path);
  const std::string header = safetensors_header(entries, {{"format", "pt"}});
  file.append(header.data(), header.size());
  crash_point("checkpoint_file_begun");
  int64_t step_bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    XXH3_state_t hash;
    XXH3_64bits_reset(&hash);
    read(tensors[i], [&](const char* bytes, int64_t num_bytes) {
      XXH3_64bits_update(&hash, bytes, static_cast<size_t>(num_bytes));
      file.append(bytes, static_cast<size_t>(num_bytes));
      if ((step_bytes += num_bytes) >= kWriteOutStepBytes) {
        file.bound_unwritten(kMaxUnwrittenBytes);
        step_bytes = 0;
      }
      on_written(num_bytes);
    });
    pieces[i].xxh3 = XXH3_64bits_digest(&hash);
  }
  file.sync();
  file.close();
  crash_point("checkpoint_file_written");
  return pieces;
}

}  // namespace weft
