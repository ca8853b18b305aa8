// Checkpoints: topology-free, atomic, checksummed.
//
//   DIR/latest_checkpointed_iteration.txt       decimal iteration; written last ("the tracker")
//   DIR/iter_0000300/state_00000.safetensors    the slices of rank 0, one entry per StateTensor
//   DIR/iter_0000300/manifest.json              scalars and arguments; of each tensor its file,
//                                               global shape, slice and XXH3 checksum
//
// A checkpoint is written into iter_0000300.part, every file is synced, the folder is renamed, and
// only then the tracker names it. So a run that is killed at any instant leaves the previous
// checkpoint or the new one. The names and the tracker are Megatron-LM's
// [megatron/training/checkpointing.py], so that scripts that read or edit them keep working.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "kernels/backend.h"
#include "trainer/checkpoint/checkpoint_info.h"
#include "trainer/step/training_state.h"

namespace weft {

// Returns DIR/iter_%07d.
std::filesystem::path checkpoint_folder(const std::filesystem::path& dir, int64_t iteration);

// Returns the iteration that DIR's tracker names, or nothing where there is no tracker. Throws
// std::runtime_error if the tracker holds no number.
std::optional<int64_t> latest_iteration(const std::filesystem::path& dir);

// Saves `tensors` and `info` as iteration info.scalars.iteration and points the tracker at it. It
// waits for the device. An existing checkpoint of that iteration is replaced in one step. Throws
// std::system_error, and then the old state is still there.
void save_checkpoint(const std::filesystem::path& dir, const CheckpointInfo& info,
                     const std::vector<StateTensor>& tensors, Backend& backend);

// Reads the manifest alone. Throws std::runtime_error if it is absent or no manifest,
// ChecksumMismatch if it is damaged.
CheckpointInfo read_checkpoint_info(const std::filesystem::path& dir, int64_t iteration);

// Fills `tensors` from the checkpoint and verifies the checksum of each. Stored tensors that
// `tensors` does not name are skipped. A tensor that the checkpoint lacks, or that has another
// shape or type there, is a std::runtime_error that names both. "model/X" of another type is taken
// from "optimizer/master/X" or converted, so that weights load into fp32 and bf16 runs.
void load_checkpoint(const std::filesystem::path& dir, int64_t iteration,
                     const std::vector<StateTensor>& tensors, Backend& backend);

}  // namespace weft
