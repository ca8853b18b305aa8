// The sub-command of weft-model that writes text.
#pragma once

#include <memory>

#include "indexed_dataset/base/terminal/command_line.h"

namespace weft {

std::unique_ptr<Command> make_generate_command();

}  // namespace weft
