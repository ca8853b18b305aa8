#include "indexed_dataset/crash_point.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

namespace weft {
namespace {

struct CrashPlan {
  std::string name;
  long at = 1;

  CrashPlan() {
    const char* text = std::getenv("WEFT_CRASH_AT");
    if (text == nullptr) return;
    name = text;
    const size_t colon = name.find(':');
    if (colon == std::string::npos) return;
    at = std::strtol(name.c_str() + colon + 1, nullptr, 10);
    name.resize(colon);
  }
};

}  // namespace

void crash_point(std::string_view name) {
  static const CrashPlan plan;
  if (plan.name.empty()) return;
  static std::mutex mutex;
  static std::set<std::string, std::less<>> seen;
  static long num_reached = 0;
  const std::lock_guard lock(mutex);
  if (plan.name == "list" && seen.emplace(name).second) {
    std::fprintf(stderr, "crash point: %.*s\n", static_cast<int>(name.size()), name.data());
  }
  if (name == plan.name && ++num_reached == plan.at) (void)std::raise(SIGKILL);
}

}  // namespace weft
