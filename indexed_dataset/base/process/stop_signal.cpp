#include "indexed_dataset/base/process/stop_signal.h"

#include <csignal>
#include <cstdint>
#include <ctime>
#include <initializer_list>

namespace weft {
namespace {

// A handler may touch only lock-free atomics, and other threads may read them.
std::atomic<int> received{0};
std::atomic<bool> received_any{false};
std::atomic<int64_t> received_at_s{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free &&
              std::atomic<int64_t>::is_always_lock_free);

// Launchers deliver a signal to a process twice within a moment: directly, and through its parent.
// The same signal later than this means that the run does not come to an end by itself.
constexpr int64_t kRepeatedAfterSeconds = 5;

int64_t now_s() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

void on_signal(int signal_number) {
  // The time comes first: a second delivery, on another thread, may already see the signal.
  int64_t never = 0;
  received_at_s.compare_exchange_strong(never, now_s());
  int none = 0;
  if (received.compare_exchange_strong(none, signal_number)) {
    received_any = true;
    return;
  }
  const bool repeated =
      received == signal_number && now_s() - received_at_s > kRepeatedAfterSeconds;
  if (signal_number != SIGINT && !repeated) return;
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

}  // namespace

void install_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // reads and writes of work under way go on
  sigemptyset(&action.sa_mask);
  for (const int signal_number : {SIGTERM, SIGUSR1, SIGINT})
    sigaction(signal_number, &action, nullptr);
  // A closed terminal stops a run like any other request, except under nohup.
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

int stop_signal() { return received; }

const std::atomic<bool>& stop_flag() { return received_any; }

const char* name_of_signal(int signal_number) {
  switch (signal_number) {
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGINT:
      return "SIGINT";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "a signal";
  }
}

}  // namespace weft
