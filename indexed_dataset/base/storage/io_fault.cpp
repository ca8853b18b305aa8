#include "indexed_dataset/base/storage/io_fault.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "indexed_dataset/base/process/test_hooks.h"

namespace weft {
#ifdef WEFT_TEST_HOOKS
namespace {

struct IoFault {
  std::atomic<int64_t> num_calls{0};
  std::atomic<int64_t> fail_at{0};  // absolute call number; 0: none
  std::atomic<int> error_number{EIO};

  IoFault() {
    const char* text = std::getenv("WEFT_IO_FAIL_AT");
    if (text == nullptr) return;
    char* end = nullptr;
    fail_at = std::strtoll(text, &end, 10);
    if (std::string_view(end) == ":KILL") {
      error_number = kIoFaultKills;
    } else if (std::string_view(end) == ":LOSE") {
      error_number = kIoFaultLosesPage;
    } else if (*end == ':') {
      error_number = static_cast<int>(std::strtol(end + 1, nullptr, 10));
    }
  }
};

IoFault& io_fault() {
  static IoFault fault;
  return fault;
}

}  // namespace

void set_io_fault(int64_t fail_at, int error_number) {
  IoFault& fault = io_fault();
  fault.error_number = error_number;
  fault.fail_at = fail_at > 0 ? fault.num_calls + fail_at : 0;
}

int64_t num_io_calls() { return io_fault().num_calls; }

namespace {
thread_local bool loses_page = false;
}  // namespace

bool io_call::is_made_to_lose_page() { return std::exchange(loses_page, false); }

bool io_call::is_made_to_fail() {
  IoFault& fault = io_fault();
  if (++fault.num_calls != fault.fail_at) return false;
  if (fault.error_number == kIoFaultKills) std::raise(SIGKILL);
  if (fault.error_number == kIoFaultLosesPage) {
    loses_page = true;
    return false;
  }
  errno = fault.error_number;
  return true;
}
#else
void set_io_fault(int64_t fail_at, int /*error_number*/) {
  if (fail_at > 0) throw std::logic_error(kNoTestHooks);
}
int64_t num_io_calls() { throw std::logic_error(kNoTestHooks); }
bool io_call::is_made_to_fail() { return false; }
bool io_call::is_made_to_lose_page() { return false; }
#endif

}  // namespace weft
