#include "indexed_dataset/base/process/test_hooks.h"

#include <cstdlib>

namespace weft {

std::string active_test_hooks() {
  std::string active;
#ifdef WEFT_TEST_HOOKS
  for (const char* name : {"WEFT_CRASH_AT", "WEFT_IO_FAIL_AT", "WEFT_STATFS_TYPE",
                           "WEFT_NO_EXCHANGE", "WEFT_PART_BYTES", "WEFT_RETRY_DELAY_MS"}) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    if (!active.empty()) active += ' ';
    active.append(name).append("=").append(value);
  }
#endif
  if (active.empty()) return "";
  return active.insert(0, "this build is for tests, and ").append(" makes it fail");
}

int64_t hooked_number([[maybe_unused]] const char* name, int64_t value) {
#ifdef WEFT_TEST_HOOKS
  const char* text = std::getenv(name);
  if (text != nullptr) return std::strtoll(text, nullptr, 10);
#endif
  return value;
}

}  // namespace weft
