// What would end a run only after hours, or cost somebody a file: told before anything is made.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace weft {

// The names that a run is about to give: those of each dataset, its lock, and `other_files` (a
// report). Throws
// - std::invalid_argument if an input has one of them, by whatever path or link: it would be
//   replaced; if one of `other_files` has the name of a dataset's file; if a name has a line end;
// - std::system_error if a name is too long for its file system, if a folder has it, or if the
//   folder for it is not there.
// Standard input and URLs are passed over; no `lock_file` is an empty one.
void guard_outputs(const std::vector<std::filesystem::path>& dataset_prefixes,
                   const std::filesystem::path& lock_file,
                   const std::vector<std::filesystem::path>& other_files,
                   const std::vector<std::string>& inputs);

// "": a name in the present folder.
std::filesystem::path folder_of(const std::filesystem::path& file);

}  // namespace weft
