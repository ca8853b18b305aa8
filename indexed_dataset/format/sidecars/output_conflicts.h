// Finds, before anything is made, what would end a run only after hours or replace a user's file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace weft {

// Checks the names that a run is about to give: those of each dataset and its lock, `lock_file`,
// and `other_files` (a report). Throws
// - UsageError if an input has one of them, by whatever path or link: it would be
//   replaced; if one of `other_files` has the name of a dataset's file; if a name has a line end;
// - std::system_error if a name is too long for its file system, if a folder has it, or if the
//   folder for it is not there.
// An empty `lock_file` means that there is none beside those of the datasets.
void guard_outputs(const std::vector<std::filesystem::path>& dataset_prefixes,
                   const std::filesystem::path& lock_file,
                   const std::vector<std::filesystem::path>& other_files,
                   const std::vector<std::filesystem::path>& inputs);

}  // namespace weft
