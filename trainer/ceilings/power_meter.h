// Reads power and clock of an NVIDIA GPU while something runs on it, through the driver's
// management library (libnvidia-ml.so.1). It is loaded at run time; a build without its header,
// nvml.h, measures nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace weft {

class PowerMeter {
 public:
  // `device_id` is Backend::device_id(), a UUID. Where the library or the device is not there,
  // why() says so and nothing is measured.
  explicit PowerMeter(const std::string& device_id);
  PowerMeter(const PowerMeter&) = delete;
  PowerMeter& operator=(const PowerMeter&) = delete;
  ~PowerMeter();

  const std::string& why() const { return why_; }
  std::optional<double> limit_w() const;
  // Adds a reading to the means.
  void read();
  std::optional<double> mean_power_w() const { return mean(power_w_); }
  std::optional<double> mean_sm_clock_mhz() const { return mean(sm_clock_mhz_); }

 private:
  struct Library;
  std::optional<double> mean(double sum) const {
    return num_readings_ == 0 ? std::nullopt : std::optional(sum / num_readings_);
  }

  std::unique_ptr<Library> library_;
  std::string why_;
  double power_w_ = 0, sm_clock_mhz_ = 0;  // sums
  int num_readings_ = 0;
};

}  // namespace weft
