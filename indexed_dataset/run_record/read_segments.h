// Reads a training run as its folder tells it: DIR/run_manifest.json, which weft-train writes
// (trainer/log/ run_manifest.h), and the files that it names.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "indexed_dataset/run_record/run_timeline.h"
#include "indexed_dataset/run_record/unseen_documents.h"

namespace weft {

// Throws std::runtime_error that names what is missing, and std::system_error if the file cannot be
// read; as RunTimeline::check_step() for the last step of each segment in metrics.jsonl.
RunTimeline read_run(const std::filesystem::path& run_folder);

// Returns the segments that a file lists, whole ones, the oldest first. Copies of files of --unsee
// lie in `run_folder`. Throws std::runtime_error for what cannot be segments of one run, and JSON
// exceptions.
std::vector<RunSegment> segments_from(const std::vector<nlohmann::ordered_json>& list,
                                      const std::filesystem::path& run_folder);

// Reads the segment's file of --unsee, from the copy if that is there; null without one. Throws
// ChecksumMismatch if it is another file than the run has read, and as UnseenDocuments.
std::shared_ptr<const UnseenDocuments> read_unseen_documents(const RunSegment& segment);

}  // namespace weft
