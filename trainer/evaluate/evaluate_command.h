// The sub-command of weft-model that scores a model.
#pragma once

#include <memory>

#include "indexed_dataset/base/terminal/command_line.h"

namespace weft {

std::unique_ptr<Command> make_evaluate_command();

}  // namespace weft
