// SIGTERM, SIGUSR1 (Slurm's --signal) and SIGINT as a request that the training loop answers after
// its step.
#pragma once

namespace weft {

// From now on these signals only set a flag; a second SIGINT ends the process at once, as it would
// have without us.
void catch_stop_signals();
// The first signal that asked to stop; 0 if none did.
int received_stop_signal();
// "SIGTERM", "SIGUSR1", "SIGINT".
const char* name_of_signal(int signal_number);
// Forgets the request. For tests.
void forget_stop_signal();

}  // namespace weft
