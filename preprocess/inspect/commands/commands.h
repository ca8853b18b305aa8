// Makes the commands of weft-data inspect: each is its options, and calls into lower rooms.
#pragma once

#include <memory>
#include <vector>

#include "indexed_dataset/base/terminal/command_line.h"

namespace weft {

std::unique_ptr<Command> make_inspect_samples_command();
std::unique_ptr<Command> make_inspect_document_command();
std::unique_ptr<Command> make_inspect_documents_command();
std::unique_ptr<Command> make_inspect_grep_command();
std::unique_ptr<Command> make_inspect_stats_command();
std::unique_ptr<Command> make_inspect_exposure_command();
std::unique_ptr<Command> make_inspect_diff_command();
std::unique_ptr<Command> make_inspect_spikes_command();

// All of them, in the order of the help.
std::vector<std::unique_ptr<Command>> make_inspect_commands();

}  // namespace weft
