// Measures what a device can do at most, through the operations that training uses.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "trainer/ceilings/device_ceilings.h"

namespace weft {

// Runs bf16 products on random numbers for `seconds` (the GPU then has the clock that its power
// limit allows for good), or for half of that and then fp8 products where the device has them; and
// fp32 products, copies, sums and small operations for about a tenth of `seconds` each. `say` gets
// a line for people after each part. measured_at stays empty. The products' algorithms come from
// `algorithm_file` (algorithm_file.h).
// Throws DeviceOutOfMemory where 2.5 GiB of a GPU are not free.
DeviceCeilings measure_device(Backend& device, const std::filesystem::path& algorithm_file,
                              double seconds, const std::function<void(const std::string&)>& say);

}  // namespace weft
