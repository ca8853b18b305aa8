// Ceilings are the most that a device can do. They are measured once, and profiles compare with
// them.
//
// The measurements of all devices of a user are one JSON file, device-ceilings.json, beside the
// file of GEMM algorithms (~/.cache/weft). A device is known by its UUID; a CPU by its
// model and number of threads.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/operations/operation.h"

namespace weft {

struct DeviceCeilings {
  std::string device = {};                  // Backend::description()
  std::string device_id = {};               // its UUID, or for a CPU its model
  std::string measured_at = {};             // a timestamp
  double bf16_tflops = 0, fp32_tflops = 0;  // matrix products, sustained
  double fp8_tflops = 0;                    // 0 where the device has none, or it was not measured
  double copy_gb_per_s = 0;                 // reads one tensor and writes one; both count
  double triad_gb_per_s = 0;                // reads two tensors and writes one; all count
  double launch_us = 0;      // the shortest time from one small operation to the next
  double round_trip_us = 0;  // the host enqueues a small operation and sees its end
  double seconds = 0;        // time for which the bf16 products ran, and the fp8 ones
  // These were read while the bf16 products ran. They are empty where the driver has none.
  std::optional<double> power_limit_w = {}, power_w = {}, sm_clock_mhz = {};

  double memory_gb_per_s() const { return std::max(copy_gb_per_s, triad_gb_per_s); }
};

// Returns the identity under which the ceilings of `device` are kept.
std::string ceilings_id(const Backend& device);

// Returns the least time of a call in ms: that of its FLOPs, of its bytes, or of a launch. The
// FLOPs of fp8 do not count where their rate is not known. A collective has none (0), because it
// could run beside other work.
double ceiling_ms(const Operation& operation, const DeviceCeilings& ceilings);

// Returns the file that belongs to this table of algorithms.
std::filesystem::path ceilings_file(const std::filesystem::path& algorithm_file);
// Adds measurements to the file, in place of those of the same devices; it is replaced as a whole.
// Processes that do so at once wait for each other (shared_file.h).
// Throws std::runtime_error if the file is of another kind, std::system_error if it cannot be
// written.
void store_ceilings(const std::filesystem::path& file, const std::vector<DeviceCeilings>& measured);
// Returns those of this device; else those of another one with the same `description`, or whose
// description begins with this name ("NVIDIA H200"); else nothing. Throws as store_ceilings().
std::optional<DeviceCeilings> find_ceilings(const std::filesystem::path& file,
                                            const std::string& device_id,
                                            const std::string& description);

// These turn a measurement into a line of JSON and back.
std::string to_json_text(const DeviceCeilings& ceilings);
DeviceCeilings ceilings_from_json_text(const std::string& text);

}  // namespace weft
