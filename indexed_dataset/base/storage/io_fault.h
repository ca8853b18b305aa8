// The fault hook of all I/O calls, so that a test can fail each call in turn: WEFT_IO_FAIL_AT=N or
// N:ERRNO (environment, default errno 5, EIO) or set_io_fault() makes the N-th call of this process
// fail with that errno. With KILL for the errno (kIoFaultKills) the process is killed there
// instead; with LOSE (kIoFaultLosesPage) the next write of that thread says that it wrote its first
// 4096 bytes, and did not, as a file system does that loses a page. Only builds with tests have the
// hook; there, WEFT_STATFS_TYPE=0x6969 makes every file system one of that type, and
// WEFT_NO_EXCHANGE=1 one that cannot exchange two names.
#pragma once

#include <cstdint>

namespace weft {

inline constexpr int kIoFaultKills = -1, kIoFaultLosesPage = -2;
// Makes the `fail_at`-th I/O call from now on fail with `error_number` (0: none). For tests.
void set_io_fault(int64_t fail_at, int error_number);
// Number of I/O calls made so far.
int64_t num_io_calls();

namespace io_call {

// Counts one I/O call; true (with errno set) when the hook wants it to fail. A build without tests
// has no hook: always false.
bool is_made_to_fail();
// True once after is_made_to_fail(), where the hook wants the next write of this thread to lose a
// page.
bool is_made_to_lose_page();

}  // namespace io_call
}  // namespace weft
