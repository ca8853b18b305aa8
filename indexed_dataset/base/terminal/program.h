// The frame of a program of several commands, from main to its exit code.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "indexed_dataset/base/terminal/command_line.h"

namespace weft {

// Runs the command that the command line names, and says on standard error why it failed. Returns
// the exit code: that of the command, that of its error (exit_code.h), or 128 + signal after
// StoppedBySignal. A reader of standard output that stops early (`weft-data info | head`) is no
// error. Never throws.
int run_program(int argc, const char* const* argv, const std::string& description,
                const std::string& version_text,
                const std::vector<std::unique_ptr<Command>>& commands);

}  // namespace weft
