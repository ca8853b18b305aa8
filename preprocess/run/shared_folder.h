// Several ranks write to one set of files: whether they can, and whether it is the same set.
#pragma once

#include <string>

#include "preprocess/run/planned_run.h"

namespace weft {

// Throws std::invalid_argument where a file system may lose what a neighbour wrote.
void check_file_system(const PlannedRun& run);

// Ranks that write to different files of one name, each on its own disk, would go unnoticed. So rank
// 0 writes a word to the work folder and returns it,
std::string publish_work_folder(const PlannedRun& run);
// and the others read it. Throws std::invalid_argument if it is not there; PipelineStopped.
void check_sees_work_folder(const PlannedRun& run, const std::string& word);

}  // namespace weft
