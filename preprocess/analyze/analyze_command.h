// Makes weft-data analyze.
#pragma once

#include <memory>

#include "indexed_dataset/base/terminal/command_line.h"

namespace weft {

std::unique_ptr<Command> make_analyze_command();

}  // namespace weft
