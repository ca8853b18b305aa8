// --measure-device keeps the ceilings of the devices of all ranks for --profile-steps.
#pragma once

#include <cstdio>

#include "trainer/config/config.h"
#include "trainer/ranks/host_group.h"

namespace weft {

// All ranks measure their devices at the same time, as in training; the first one prints to `out`
// and writes the file. Throws UsageError where no file can be named, where ranks share a
// device, and as choose_device() and store_ceilings().
void measure_devices(const Config& config, HostGroup& ranks, std::FILE* out);

}  // namespace weft
