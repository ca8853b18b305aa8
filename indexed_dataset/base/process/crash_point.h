// Named places at which a test can end the process as a power cut would: no destructors, no flush.
// Or hold it up there.
#pragma once

#include <string_view>

namespace weft {

// Ends the process by SIGKILL if the environment says WEFT_CRASH_AT=NAME, or NAME:K, at the K-th
// time (from 1) this name is reached. NAME:K:stop stops it by SIGSTOP instead; NAME:K:PATH makes
// PATH.waiting and holds this thread up until PATH exists. Several of these are separated by
// semicolons. WEFT_CRASH_AT=list prints every name to standard error when it is reached first.
// Otherwise costs a comparison. A build without WEFT_TEST_HOOKS does not look at the environment.
void crash_point(std::string_view name);

}  // namespace weft
