// The run behind a checkpoint of weft-train, up to the iteration that it holds.
//
// A checkpoint's manifest.json lists the segments that led to it, so that a run which goes back and takes another
// way contradicts none of its older checkpoints. Those of older versions have the arguments of the part of the
// run that saved them only. Where that part began, and what came before, then stands in run_manifest.json: beside
// the checkpoints, or in the --run-dir of the arguments. Both must tell the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "indexed_dataset/run_record/run_segments.h"

namespace weft {

struct CheckpointRun {
  std::vector<RunSegment> segments;  // those that began before the checkpoint
  int64_t iteration = 0;             // of the checkpoint
};

// Returns every argument that decides which samples an iteration or evaluation takes, by its name in
// manifests. A test compares the list with what weft-train announces on resume.
std::span<const char* const> decisive_arguments();

// `load` is a folder of checkpoints, whose latest one is meant, or the folder of one of them. Throws
// std::runtime_error for a folder that is neither, where nothing lists the segments, and where these contradict
// the checkpoint: in an argument that decides samples (of an older checkpoint also in one that decides what is
// trained of them), in its datasets or in its consumed samples;
// ChecksumMismatch where the checkpoint's manifest was changed; and as read_run_segments().
CheckpointRun read_run_of_checkpoint(const std::filesystem::path& load);
// The same as files list them (segment_list.h).
nlohmann::ordered_json list_segments_before(const std::filesystem::path& load);

}  // namespace weft
