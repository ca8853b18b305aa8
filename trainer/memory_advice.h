// Options with which a run that does not fit its devices would fit them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "kernels/backend.h"
#include "trainer/config/config.h"

namespace weft {

// Returns the bytes that a rank of such a run needs of its device.
using DeviceBytes = std::function<int64_t(const Config& config)>;

// Returns what a run may add to need at most `free_bytes` on each device, the options that cost least
// time first, or what is left to lower where none suffices. `device_bytes` plans each of them.
std::string memory_advice(const Config& config, int64_t free_bytes,
                          const DeviceBytes& device_bytes);

// Returns the device memory of the rank that plans the most. `planned_workspace_bytes` is that of
// another device than the backend's (TrainerOptions).
int64_t largest_device_bytes(const Config& config, int64_t vocab_size, Backend& backend,
                             std::optional<int64_t> planned_workspace_bytes = {});

}  // namespace weft
