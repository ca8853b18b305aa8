#include "trainer/ceilings/power_meter.h"

#include <dlfcn.h>
#if __has_include(<nvml.h>)
#include <nvml.h>
#endif

namespace weft {

#ifdef NVML_API_VERSION
// The functions of nvml.h that are used here, from the library that the driver brings.
// [NVML API Reference Guide]
struct PowerMeter::Library {
  void* handle = nullptr;
  nvmlDevice_t device = nullptr;
  decltype(&::nvmlInit_v2) init = nullptr;
  decltype(&::nvmlShutdown) shutdown = nullptr;
  decltype(&::nvmlDeviceGetHandleByUUID) device_by_uuid = nullptr;
  decltype(&::nvmlDeviceGetEnforcedPowerLimit) enforced_power_limit = nullptr;  // mW
  decltype(&::nvmlDeviceGetPowerUsage) power_usage = nullptr;                   // mW
  decltype(&::nvmlDeviceGetClockInfo) clock = nullptr;                          // MHz

  template <typename Function>
  bool load(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    return function != nullptr;
  }
  bool load_all() {
    return load(init, "nvmlInit_v2") && load(shutdown, "nvmlShutdown") &&
           load(device_by_uuid, "nvmlDeviceGetHandleByUUID") &&
           load(enforced_power_limit, "nvmlDeviceGetEnforcedPowerLimit") &&
           load(power_usage, "nvmlDeviceGetPowerUsage") && load(clock, "nvmlDeviceGetClockInfo");
  }
};

PowerMeter::PowerMeter(const std::string& device_id) {
  if (device_id.empty()) {
    why_ = "this device has no power meter";
    return;
  }
  auto library = std::make_unique<Library>();
  library->handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library->handle == nullptr) {
    const char* error = dlerror();
    why_ = error == nullptr ? "libnvidia-ml.so.1 cannot be loaded" : error;
    return;
  }
  if (!library->load_all() || library->init() != NVML_SUCCESS) {
    why_ = "libnvidia-ml.so.1 does not start";
    dlclose(library->handle);
    return;
  }
  library_ = std::move(library);
  if (library_->device_by_uuid(device_id.c_str(), &library_->device) != NVML_SUCCESS)
    why_ = "libnvidia-ml.so.1 does not know " + device_id;
}

PowerMeter::~PowerMeter() {
  if (!library_) return;
  library_->shutdown();
  dlclose(library_->handle);
}

std::optional<double> PowerMeter::limit_w() const {
  unsigned milliwatts = 0;
  if (!why_.empty() ||
      library_->enforced_power_limit(library_->device, &milliwatts) != NVML_SUCCESS)
    return std::nullopt;
  return milliwatts / 1e3;
}

void PowerMeter::read() {
  unsigned milliwatts = 0, mhz = 0;
  if (!why_.empty() || library_->power_usage(library_->device, &milliwatts) != NVML_SUCCESS ||
      library_->clock(library_->device, NVML_CLOCK_SM, &mhz) != NVML_SUCCESS)
    return;
  power_w_ += milliwatts / 1e3;
  sm_clock_mhz_ += mhz;
  ++num_readings_;
}

#else

struct PowerMeter::Library {};
PowerMeter::PowerMeter(const std::string& device_id)
    : why_(device_id.empty() ? "this device has no power meter"
                             : "this build has none (it was made without nvml.h, which the CUDA "
                               "toolkit brings: package cuda-nvml-dev)") {}
PowerMeter::~PowerMeter() = default;
std::optional<double> PowerMeter::limit_w() const { return std::nullopt; }
void PowerMeter::read() {}

#endif

}  // namespace weft
