#include "preprocess/stop_signal.h"

#include <csignal>

namespace weft {
namespace {

volatile std::sig_atomic_t received_signal = 0;

void on_signal(int signal) { received_signal = signal; }

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
}

int stop_signal() { return received_signal; }

}  // namespace weft
