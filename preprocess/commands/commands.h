// Makes the sub-commands of weft-data: each is its options, and one call into a lower room. Those
// of weft-data inspect stand in preprocess/inspect/commands.
#pragma once

#include <memory>
#include <vector>

#include "indexed_dataset/base/terminal/command_line.h"

namespace weft {

std::unique_ptr<Command> make_download_command();
std::unique_ptr<Command> make_preprocess_command();
std::unique_ptr<Command> make_info_command();
std::unique_ptr<Command> make_verify_command();
std::unique_ptr<Command> make_repair_command();
std::unique_ptr<Command> make_report_command();
std::unique_ptr<Command> make_merge_command();
std::unique_ptr<Command> make_index_command();
std::unique_ptr<Command> make_train_vocab_command();
std::unique_ptr<Command> make_encode_command();
std::unique_ptr<Command> make_decode_command();
std::unique_ptr<Command> make_tasks_command();

}  // namespace weft
