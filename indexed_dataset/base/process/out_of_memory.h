#pragma once

#include <string>

namespace weft {

// For `main`: loads what the C library needs to pass an exception on. It would do so when the first
// exception meets one of its frames; if that is std::bad_alloc it finds no memory, and aborts with
// "libgcc_s.so.1 must be installed for unwinding to work".
void prepare_for_out_of_memory();

// Throws LimitExceeded where `num_bytes` are more than this machine, or a limit of the process
// (ulimit -v), has: "WHAT needs 12.0 TB of memory, and this process can have 8.0 GB". It is asked
// before a large allocation, which the kernel might grant and then kill the process for.
void require_memory(double num_bytes, const std::string& what, const std::string& hint);

}  // namespace weft
