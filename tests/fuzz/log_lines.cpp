// Lines of a training log that someone pasted, of any content: nothing but counts that stand in
// them.
#include <algorithm>
#include <string>

#include "preprocess/inspect/foreign_runs/log_line.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto lines = weft::parse_log_lines(text);
  FUZZ_CHECK(std::ssize(lines) <= std::count(text.begin(), text.end(), '\n') + 1);
  for (const weft::LogLine& line : lines) {
    FUZZ_CHECK(line.iteration > 0);
    for (const auto& count :
         {line.consumed_samples, line.global_batch_size, line.consumed_tokens, line.num_iterations})
      FUZZ_CHECK(!count || *count >= 0);
  }
  return 0;
}
