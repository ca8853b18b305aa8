// The errors of a device. They have types of their own, because another process may go on where
// this one cannot.
#pragma once

#include <stdexcept>

namespace weft {

// The device failed, or the driver lost it: the process cannot go on, another one may.
struct DeviceLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The device's memory is exhausted.
struct DeviceOutOfMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace weft
