// Makes the sub-commands of weft-model: each is its options, and one call of this room or of
// checkpoint/.
#pragma once

#include <memory>

#include "indexed_dataset/base/terminal/command_line.h"

namespace weft {

std::unique_ptr<Command> make_export_command();
std::unique_ptr<Command> make_import_command();
std::unique_ptr<Command> make_diff_command();

}  // namespace weft
