// Takes SIGINT, SIGTERM, SIGHUP and SIGUSR1 as a request that the program answers when it can.
#pragma once

#include <atomic>
#include <exception>

namespace weft {

// From now on the first of these signals only sets a flag; a second one ends the process at once.
void install_stop_signals();
// Returns the signal that asked to stop; 0 if none did.
int stop_signal();
// Becomes true when a signal asks to stop; for reads that wait (open_input).
const std::atomic<bool>& stop_flag();

// The program was asked to stop and left nothing half-written. main returns 128 + signal.
struct StoppedBySignal : std::exception {
  explicit StoppedBySignal(int the_signal) : signal(the_signal) {}
  const char* what() const noexcept override { return "stopped by a signal"; }
  int signal;
};

}  // namespace weft
