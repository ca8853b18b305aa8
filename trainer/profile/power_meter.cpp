#include "trainer/profile/power_meter.h"

#include <dlfcn.h>

namespace weft {

// The functions and constants of nvml.h that are used here. Functions return 0 where they succeed.
// [NVML API Reference Guide]
struct PowerMeter::Library {
  using Device = void*;
  static constexpr int kClockSm = 1;  // NVML_CLOCK_SM

  void* handle = nullptr;
  Device device = nullptr;
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*device_by_uuid)(const char*, Device*) = nullptr;
  int (*enforced_power_limit)(Device, unsigned*) = nullptr;  // mW
  int (*power_usage)(Device, unsigned*) = nullptr;           // mW
  int (*clock)(Device, int, unsigned*) = nullptr;            // MHz

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
  if (!library->load_all() || library->init() != 0) {
    why_ = "libnvidia-ml.so.1 does not start";
    dlclose(library->handle);
    return;
  }
  library_ = std::move(library);
  if (library_->device_by_uuid(device_id.c_str(), &library_->device) != 0)
    why_ = "libnvidia-ml.so.1 does not know " + device_id;
}

PowerMeter::~PowerMeter() {
  if (!library_) return;
  library_->shutdown();
  dlclose(library_->handle);
}

std::optional<double> PowerMeter::limit_w() const {
  unsigned milliwatts = 0;
  if (!why_.empty() || library_->enforced_power_limit(library_->device, &milliwatts) != 0)
    return std::nullopt;
  return milliwatts / 1e3;
}

void PowerMeter::read() {
  unsigned milliwatts = 0, mhz = 0;
  if (!why_.empty() || library_->power_usage(library_->device, &milliwatts) != 0 ||
      library_->clock(library_->device, Library::kClockSm, &mhz) != 0)
    return;
  power_w_ += milliwatts / 1e3;
  sm_clock_mhz_ += mhz;
  ++num_readings_;
}

}  // namespace weft
