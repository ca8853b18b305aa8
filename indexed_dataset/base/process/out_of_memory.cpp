#include "indexed_dataset/base/process/out_of_memory.h"

#include <execinfo.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

double usable_bytes() {
  double bytes =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  for (const auto kind : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (::getrlimit(kind, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      bytes = std::min(bytes, static_cast<double>(limit.rlim_cur));
  }
  return bytes;
}

std::string gigabytes(double num_bytes) {
  char text[32];
  std::snprintf(text, sizeof text, num_bytes < 1e12 ? "%.1f GB" : "%.1f TB",
                num_bytes / (num_bytes < 1e12 ? 1e9 : 1e12));
  return text;
}

}  // namespace

void prepare_for_out_of_memory() {
  void* frame = nullptr;
  ::backtrace(&frame, 1);  // its first call does it, as backtrace(3) says
}

void require_memory(double num_bytes, const std::string& what, const std::string& hint) {
  const double usable = usable_bytes();
  if (num_bytes <= usable) return;
  throw LimitExceeded(what + " needs " + gigabytes(num_bytes) +
                      " of memory, and this process can have " + gigabytes(usable) + ": " + hint);
}

}  // namespace weft
