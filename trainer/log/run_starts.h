// RUN_DIR/start.json: how often a run was started, and how its last start has ended:
//
//   {"start": 2, "exit_code": 10, "reason": "exiting program after receiving SIGUSR1."}
//
// The last two are there once it has ended as it should. Otherwise failure.json beside it has the
// reason, or nothing has it, because the process was killed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace weft {

// Counts a start of the run in this folder, which goes on behind `iteration` (0: from the
// beginning). A run that does not go on with what the folder holds (`goes_on`) counts from 1.
// Returns a line for the user about the start before and what is done again; "" where there was
// none. A failure.json there becomes failure.start_00001.json, by the number of the start that
// wrote it. Throws std::system_error where a file cannot be read or written.
std::string begin_start(const std::filesystem::path& run_folder, bool goes_on, int64_t iteration);

// Tells how this start has ended. Throws as above.
void end_start(const std::filesystem::path& run_folder, int exit_code, const std::string& reason);

}  // namespace weft
