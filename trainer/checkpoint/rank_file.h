// The file of one rank in a checkpoint: state_00002.safetensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "trainer/checkpoint/manifest.h"
#include "trainer/step/training_state.h"

namespace weft {

std::string file_of_rank(int rank);

TensorPiece piece_of(const StateTensor& tensor);

// Calls consume(bytes, num_bytes) for all bytes of a tensor, front to back.
using Consume = std::function<void(const char* bytes, int64_t num_bytes)>;
using ReadTensor = std::function<void(const StateTensor& tensor, const Consume& consume)>;

// Writes `tensors`, whose bytes `read` gets, and syncs the file. Returns where each one lies, with
// its checksum. `on_written` is called with the number of bytes of each part that was written; what
// it throws ends the writing. Throws std::system_error.
std::vector<StoredPiece> write_rank_file(const std::filesystem::path& path,
                                         const std::vector<StateTensor>& tensors,
                                         const ReadTensor& read,
                                         const std::function<void(int64_t num_bytes)>& on_written);

}  // namespace weft
