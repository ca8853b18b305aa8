#include "indexed_dataset/base/ranks/start_watch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/start_thread.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

// The watch counts such intervals: one in which this process was suspended counts once, however
// long the suspension lasted.
constexpr milliseconds kInterval{500};

std::string message_of(const StartLimit& limit) {
  char host[256] = "?";
  ::gethostname(host, sizeof host - 1);
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", static_cast<double>(limit.timeout.count()) / 1e3);
  return "process " + std::to_string(::getpid()) + " on " + host +
         ": the ranks have not all started MPI within " + seconds + " s (" + limit.option +
         "): one of them is stopped, or its machine or the network to it is lost";
}

}  // namespace

StartWatch::StartWatch(const StartLimit& limit)
    : limit_(limit), thread_(start_thread([this] { watch(); })) {}

StartWatch::~StartWatch() {
  {
    const std::lock_guard lock(mutex_);
    has_started_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void StartWatch::watch() {
  std::unique_lock lock(mutex_);
  for (milliseconds left = limit_.timeout; left.count() > 0; left -= kInterval) {
    if (ended_.wait_for(lock, std::min(left, kInterval), [this] { return has_started_; })) return;
  }
  limit_.print_error(message_of(limit_));
  ::_exit(static_cast<int>(ExitCode::kPeerLost));
}

}  // namespace weft
