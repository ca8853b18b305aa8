#include "preprocess/inspect/commands/commands.h"

namespace weft {

std::vector<std::unique_ptr<Command>> make_inspect_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  for (const auto make_command :
       {make_inspect_samples_command, make_inspect_documents_command, make_inspect_grep_command,
        make_inspect_stats_command, make_inspect_exposure_command, make_inspect_diff_command,
        make_inspect_document_command, make_inspect_spikes_command})
    commands.push_back(make_command());
  return commands;
}

}  // namespace weft
