// The checks of a configuration.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace weft {

// The problem of --fp16 on a GPU. It is known here, or when --device auto has found one.
inline constexpr const char* kFp16OnGpu =
    "--fp16 trains on CPUs only: the kernels for GPUs have no float16; give --bf16, which takes the same "
    "memory and needs no loss scale, or --device cpu";

// Returns every problem of the configuration, in sentences that name the flags and both values.
std::vector<std::string> problems_of(const Config& config);
// Returns what is unusual but allowed, for the log. There must be no problems.
std::vector<std::string> warnings_of(const Config& config);

}  // namespace weft
