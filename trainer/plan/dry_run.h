// --dry-run: what a run would be.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace weft {

// Prints what the run would be to `out`: the verdict, warnings and the memory of the rank that
// needs the most; with --verbose everything else. Nothing is allocated on the device.
// `ranks_on_host` of its ranks share this host's memory.
void dry_run(const Config& config, const std::vector<std::string>& notes, int64_t ranks_on_host,
             std::FILE* out);

}  // namespace weft
