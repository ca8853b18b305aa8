#include "trainer/model_tool/checkpoint_option.h"

#include <stdexcept>

#include "indexed_dataset/base/terminal/messages.h"
#include "trainer/resume/choose_checkpoint.h"

namespace weft {

int64_t CheckpointOption::iteration() const {
  if (step) return *step;
  const auto choice = choose_checkpoint(folder);
  if (!choice) {
    throw std::runtime_error(
        folder +
        " holds no checkpoint (no latest_checkpointed_iteration.txt); is it a --save folder?");
  }
  for (const std::string& warning : choice->warnings) print_message("WARNING: " + warning);
  return choice->iteration;
}

}  // namespace weft
