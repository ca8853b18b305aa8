// Saving and loading checkpoints: by all ranks at once, atomic, checksummed, free of the topology.
//
//   DIR/iter_0000300/state_00002.safetensors    the pieces of tensors that rank 2 has written
//   DIR/iter_0000300/manifest.json              scalars and arguments; of each piece its file,
//                                               tensor, place in it and XXH3 checksum
//
// A checkpoint is written into iter_0000300.part, every file is synced, the folder is renamed, and
// only then the tracker names it (checkpoint_folder.h). So a run that is killed at any instant
// leaves the previous checkpoint or the new one. Every element of a tensor lies in one file, and
// each rank that loads takes what it needs from all files (tensor_piece.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include "kernels/backend.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/checkpoint/checkpoint_info.h"
#include "trainer/parallel/parallel_layout.h"
#include "trainer/ranks/host_group.h"
#include "trainer/step/training_state.h"

namespace weft {

// Pinned memory through which saves and loads copy. It belongs to the plan of the run, because a
// rank must not allocate pinned memory while another one waits for it in a collective operation.
struct CheckpointStaging {
  Backend& backend;
  Tensor memory;  // bytes

  char* data() const { return memory.as<char>(); }
  int64_t num_bytes() const { return memory.num_bytes(); }
};
// Returns the size that copies of `tensors` need, at most 64 MiB: large enough for the full rate,
// and small enough to pin anywhere.
int64_t staging_bytes(const std::vector<StateTensor>& tensors);

// Returns those of a rank's state tensors that it writes, so that all ranks together write each
// element once. Replicas over data-parallel ranks are dealt out among them by size, what all
// tensor-parallel ranks hold is written by the first one, and the last stage's copy of the word
// embeddings is not written. With `shards_optimizer` each data-parallel rank holds its own part of
// "optimizer/...".
std::vector<StateTensor> written_by(const ParallelLayout& layout, bool shards_optimizer,
                                    const std::vector<StateTensor>& tensors);

// Saves `tensors`, which are written_by() this rank, and `info` as iteration info.scalars.iteration
// and points the tracker at it. All ranks call it; each writes its file, and the first one commits.
// It waits for the device. An existing checkpoint of that iteration is replaced in one step. Throws
// std::system_error, and then the old state is still there.
void save_checkpoint(const std::filesystem::path& dir, const CheckpointInfo& info,
                     const std::vector<StateTensor>& tensors, CheckpointStaging& staging,
                     HostGroup& ranks);
// The same for a process that is alone.
void save_checkpoint(const std::filesystem::path& dir, const CheckpointInfo& info,
                     const std::vector<StateTensor>& tensors, Backend& backend);

// The parts of a save, which the background save (background_save.h) spreads over several steps.
// All ranks call begin_checkpoint(); then the folder is there into which each writes its file.
std::filesystem::path begin_checkpoint(const std::filesystem::path& dir, int64_t iteration,
                                       HostGroup& ranks);
// The first rank calls it, with what pieces_to_text() of each rank has returned.
void commit_checkpoint(const std::filesystem::path& dir, const CheckpointInfo& info,
                       const std::vector<std::string>& pieces_by_rank);
// Half a checkpoint would keep a full disk full. A rank that fails to write removes its own file:
// the others may still write, and without their folder they would fail for another reason, and
// first. If it is alone, or if the commit fails, the folder goes as a whole.
void abandon_rank_file(const std::filesystem::path& dir, int64_t iteration, HostGroup& ranks);

// Removes the checkpoints before `iteration` but the newest, so that `keep_last` with it remain,
// and but those of iterations that are multiples of `keep_every`. Folders that hold no checkpoint
// of ours stay, and so do checkpoints that this version cannot judge, such as another version's;
// they are not counted. A torn one is not among those that remain; `complete` remembers which were
// found complete, so that the files of all ranks are opened once and not at each save.
void remove_old_checkpoints(const std::filesystem::path& dir, int64_t iteration, int64_t keep_last,
                            std::optional<int64_t> keep_every, std::set<int64_t>& complete);
// The older checkpoints that a save removes: those of remove_old_checkpoints(), or, as Megatron
// with --save-retain-interval, the one before unless its iteration is a multiple of that.
struct Retention {
  std::optional<int64_t> keep_last, keep_every, retain_interval;
};
// The first rank calls it after a save; `previous` is what the tracker named before that.
void remove_after_save(const std::filesystem::path& dir, int64_t iteration,
                       std::optional<int64_t> previous, const Retention& retention,
                       std::set<int64_t>& complete);

// Reads the manifest alone. Throws std::runtime_error if it is absent or no manifest,
// ChecksumMismatch if it is damaged.
CheckpointInfo read_checkpoint_info(const std::filesystem::path& dir, int64_t iteration);

// Fills `tensors`, whatever pieces of the stored tensors they are, and verifies the checksum of
// each stored piece that it reads. Stored tensors that `tensors` does not name are skipped. A
// tensor that the checkpoint lacks, or that has another shape there, is a std::runtime_error that
// names both. "model/X" of another type is taken from "optimizer/master/X" or converted, so that
// weights load into fp32, bf16 and fp16 runs.
void load_checkpoint(const std::filesystem::path& dir, int64_t iteration,
                     const std::vector<StateTensor>& tensors, CheckpointStaging& staging,
                     HostGroup& ranks);
void load_checkpoint(const std::filesystem::path& dir, int64_t iteration,
                     const std::vector<StateTensor>& tensors, Backend& backend);

}  // namespace weft
