// The run behind a checkpoint of weft-train, up to the iteration that it holds.
//
// A checkpoint's manifest.json lists the segments that led to it, so that a run which goes back and
// takes another way contradicts none of its older checkpoints.
#pragma once

#include <filesystem>

#include "indexed_dataset/run_record/run_timeline.h"

namespace weft {

// `load` is a folder of checkpoints, whose latest one is meant, or the folder of one of them.
// Returns the run up to it. Throws std::runtime_error for a folder that is neither, for a
// checkpoint that lists no segments, and where these contradict it: in an argument that decides
// samples, in its datasets or in its consumed samples; ChecksumMismatch where the checkpoint's
// manifest was changed; and as read_run().
RunTimeline read_run_of_checkpoint(const std::filesystem::path& load);

}  // namespace weft
