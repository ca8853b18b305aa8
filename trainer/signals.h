// SIGTERM, SIGUSR1 (Slurm's --signal), SIGINT and SIGHUP as a request to stop, which the training
// loop obeys after its step.
#pragma once

namespace weft {

// From now on these signals only set a flag. A second SIGINT ends the process at once, as it does
// by default, and so does the first signal itself if it comes again more than 5 s later. SIGHUP
// stays ignored where it is ignored (nohup).
void catch_stop_signals();
// Returns the first signal that asked to stop, or 0.
int received_stop_signal();
// Returns "SIGTERM", "SIGUSR1", "SIGINT" or "SIGHUP".
const char* name_of_signal(int signal_number);
// Forgets the request, for tests.
void forget_stop_signal();

}  // namespace weft
