// Looks at the inputs of a run, several at once: each look may wait for a server or a disk. One
// process looks for others: to open all tables, or to ask for all files of a hub, costs as much on
// each rank as on one.
#pragma once

#include <atomic>
#include <string>

#include "preprocess/inputs/input_list.h"

namespace weft {

// `found` is the text of another process that has looked at these inputs, or "". Throws what
// Input::look() throws for the first input in order that it fails for.
void look_at_inputs(const Inputs& inputs, const std::string& found, const RowRequest& wanted,
                    const std::atomic<bool>& cancelled);

// Returns what look_at_inputs() has found, for another process.
std::string found_text(const Inputs& inputs);

}  // namespace weft
