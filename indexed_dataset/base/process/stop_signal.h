// SIGTERM, SIGUSR1 (Slurm's --signal), SIGINT and SIGHUP as a request to stop, which a program
// obeys when it can.
#pragma once

#include <atomic>
#include <exception>

namespace weft {

// From now on these signals only set a flag. A second SIGINT ends the process at once, as it does
// by default, and so does the first signal itself if it comes again more than 5 s later. SIGHUP
// stays ignored where it is ignored (nohup).
void install_stop_signals();
// Returns the first signal that asked to stop; 0 if none did.
int stop_signal();
// Becomes true when a signal asks to stop; for reads that wait.
const std::atomic<bool>& stop_flag();
// Returns "SIGTERM", "SIGUSR1", "SIGINT" or "SIGHUP".
const char* name_of_signal(int signal_number);

// The program was asked to stop and left nothing half-written. main returns 128 + signal.
struct StoppedBySignal : std::exception {
  explicit StoppedBySignal(int the_signal) : signal(the_signal) {}
  const char* what() const noexcept override { return "stopped by a signal"; }
  int signal;
};

}  // namespace weft
