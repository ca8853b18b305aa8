#include "indexed_dataset/process/stop_signal.h"

#include <atomic>
#include <csignal>

namespace weft {
namespace {

// A handler may touch only lock-free atomics, and other threads may read them.
std::atomic<int> received_signal{0};
std::atomic<bool> received_any{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void on_signal(int signal) {
  received_signal = signal;
  received_any = true;
}

}  // namespace

void install_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  // SA_RESETHAND: the second signal of a kind meets the default action. SA_RESTART: no call fails
  // because of the first.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);  // Slurm's --signal=USR1@N: the time limit is near
  struct sigaction before {};            // a closed terminal; nohup ignores it
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) {
    sigaction(SIGHUP, &action, nullptr);
  }
}

int stop_signal() { return received_signal; }

const std::atomic<bool>& stop_flag() { return received_any; }

}  // namespace weft
