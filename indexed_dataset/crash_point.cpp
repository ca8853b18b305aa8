#include "indexed_dataset/crash_point.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace weft {
namespace {

struct CrashPlan {
  std::string name;
  long at = 1;
  std::string action = "kill";  // or "stop", or what to wait for

  CrashPlan() {
    const char* text = std::getenv("WEFT_CRASH_AT");
    if (text == nullptr) return;
    name = text;
    const size_t colon = name.find(':');
    if (colon == std::string::npos) return;
    char* end = nullptr;
    at = std::strtol(name.c_str() + colon + 1, &end, 10);
    if (*end == ':') action = end + 1;
    name.resize(colon);
  }
};

void act(const std::string& action) {
  if (action == "kill") (void)std::raise(SIGKILL);
  if (action == "stop") {
    (void)std::raise(SIGSTOP);
    return;
  }
  std::ofstream(action + ".waiting").close();
  while (!std::filesystem::exists(action)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

void crash_point(std::string_view name) {
  static const CrashPlan plan;
  if (plan.name.empty()) return;
  static std::mutex mutex;
  static std::set<std::string, std::less<>> seen;
  static long num_reached = 0;
  std::unique_lock lock(mutex);
  if (plan.name == "list" && seen.emplace(name).second) {
    std::fprintf(stderr, "crash point: %.*s\n", static_cast<int>(name.size()), name.data());
  }
  const bool is_here = name == plan.name && ++num_reached == plan.at;
  lock.unlock();
  if (is_here) act(plan.action);
}

}  // namespace weft
