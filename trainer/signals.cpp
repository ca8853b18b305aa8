#include "trainer/signals.h"

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace weft {

namespace {

std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

void on_signal(int signal_number) {
  int none = 0;
  const bool first = received.compare_exchange_strong(none, signal_number);
  if (!first && signal_number == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // reads and writes of a running step go on
  sigemptyset(&action.sa_mask);
  for (const int signal_number : {SIGTERM, SIGUSR1, SIGINT})
    sigaction(signal_number, &action, nullptr);
}

int received_stop_signal() { return received.load(); }

const char* name_of_signal(int signal_number) {
  switch (signal_number) {
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGINT:
      return "SIGINT";
    default:
      return "a signal";
  }
}

void forget_stop_signal() { received.store(0); }

}  // namespace weft
