#include "indexed_dataset/base/process/crash_point.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#ifdef WEFT_TEST_HOOKS
namespace weft {
namespace {

struct CrashPlan {
  std::string name;
  long at = 1;
  std::string action = "kill";  // or "stop", or what to wait for
  long num_reached = 0;

  explicit CrashPlan(const std::string& text) : name(text) {
    const size_t colon = name.find(':');
    if (colon == std::string::npos) return;
    char* end = nullptr;
    at = std::strtol(name.c_str() + colon + 1, &end, 10);
    if (*end == ':') action = end + 1;
    name.resize(colon);
  }
};

std::vector<CrashPlan> plans_of_environment() {
  std::vector<CrashPlan> plans;
  const char* text = std::getenv("WEFT_CRASH_AT");
  std::istringstream all(text == nullptr ? "" : text);
  for (std::string one; std::getline(all, one, ';');) plans.emplace_back(one);
  return plans;
}

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
  static std::vector<CrashPlan> plans = plans_of_environment();
  if (plans.empty()) return;
  static std::mutex mutex;
  static std::set<std::string, std::less<>> seen;
  std::unique_lock lock(mutex);
  if (plans.front().name == "list" && seen.emplace(name).second) {
    std::fprintf(stderr, "crash point: %.*s\n", static_cast<int>(name.size()), name.data());
  }
  for (CrashPlan& plan : plans) {
    if (name != plan.name || ++plan.num_reached != plan.at) continue;
    lock.unlock();  // others go on while this thread is held up
    act(plan.action);
    return;
  }
}

}  // namespace weft
#else
void weft::crash_point(std::string_view) {}
#endif
