#include "trainer/ceilings/device_ceilings.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "trainer/ceilings/shared_file.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kFormat = "weft-device-ceilings 1";

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }
std::optional<double> number_of(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

Json to_json(const DeviceCeilings& c) {
  return {{"device", c.device},
          {"device_id", c.device_id},
          {"measured_at", c.measured_at},
          {"bf16_tflops", c.bf16_tflops},
          {"fp32_tflops", c.fp32_tflops},
          {"fp8_tflops", c.fp8_tflops},
          {"copy_gb_per_s", c.copy_gb_per_s},
          {"triad_gb_per_s", c.triad_gb_per_s},
          {"launch_us", c.launch_us},
          {"round_trip_us", c.round_trip_us},
          {"seconds", c.seconds},
          {"power_limit_w", number_or_null(c.power_limit_w)},
          {"power_w", number_or_null(c.power_w)},
          {"sm_clock_mhz", number_or_null(c.sm_clock_mhz)}};
}

DeviceCeilings from_json(const Json& json) {
  return {.device = json.at("device"),
          .device_id = json.at("device_id"),
          .measured_at = json.at("measured_at"),
          .bf16_tflops = json.at("bf16_tflops"),
          .fp32_tflops = json.at("fp32_tflops"),
          // Files that were written before there was fp8 have none.
          .fp8_tflops = json.value("fp8_tflops", 0.0),
          .copy_gb_per_s = json.at("copy_gb_per_s"),
          .triad_gb_per_s = json.at("triad_gb_per_s"),
          .launch_us = json.at("launch_us"),
          .round_trip_us = json.at("round_trip_us"),
          .seconds = json.at("seconds"),
          .power_limit_w = number_of(json.at("power_limit_w")),
          .power_w = number_of(json.at("power_w")),
          .sm_clock_mhz = number_of(json.at("sm_clock_mhz"))};
}

std::vector<DeviceCeilings> read_all(const std::filesystem::path& file) {
  std::vector<DeviceCeilings> all;
  if (!std::filesystem::exists(file)) return all;
  try {
    const Json json = parse_json<Json>(read_file(file));
    if (json.at("format") != kFormat) throw std::runtime_error("its format is another one");
    for (const Json& device : json.at("devices")) all.push_back(from_json(device));
  } catch (const std::system_error&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format(
        "{}: not a file of measured devices ({}); remove it and run weft-train --measure-device",
        file.string(), error.what()));
  }
  return all;
}

std::string cpu_model() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown model";
}

// GPUs multiply both types of two bytes at the same rate, and both of fp8.
double tflops_of(DType dtype, const DeviceCeilings& ceilings) {
  if (is_float8(dtype)) return ceilings.fp8_tflops;
  return size_bytes(dtype) == 2 ? ceilings.bf16_tflops : ceilings.fp32_tflops;
}

}  // namespace

std::string ceilings_id(const Backend& device) {
  if (!device.device_id().empty()) return device.device_id();
  return cpu_model() + ", " + device.description();
}

double ceiling_ms(const Operation& operation, const DeviceCeilings& ceilings) {
  if (operation.is_collective()) return 0;
  const double tflops = tflops_of(operation.dtype, ceilings);
  return std::max({tflops > 0 ? operation.flops / (tflops * 1e9) : 0,
                   operation.bytes / (ceilings.memory_gb_per_s() * 1e6), ceilings.launch_us / 1e3});
}

std::filesystem::path ceilings_file(const std::filesystem::path& algorithm_file) {
  return algorithm_file.parent_path() / "device-ceilings.json";
}

void store_ceilings(const std::filesystem::path& file,
                    const std::vector<DeviceCeilings>& measured) {
  const LockFile lock = lock_shared_file(file);
  std::vector<DeviceCeilings> all = read_all(file);
  for (const DeviceCeilings& one : measured) {
    std::erase_if(all, [&](const DeviceCeilings& c) { return c.device_id == one.device_id; });
    all.push_back(one);
  }
  Json json = {{"format", kFormat}, {"devices", Json::array()}};
  for (const DeviceCeilings& one : all) json["devices"].push_back(to_json(one));
  write_file_atomically(file, json.dump(2) + "\n");
}

std::optional<DeviceCeilings> find_ceilings(const std::filesystem::path& file,
                                            const std::string& device_id,
                                            const std::string& description) {
  std::optional<DeviceCeilings> alike;
  for (const DeviceCeilings& one : read_all(file)) {
    if (one.device_id == device_id) return one;
    if (one.device == description || one.device.starts_with(description + " (")) alike = one;
  }
  return alike;
}

std::string to_json_text(const DeviceCeilings& ceilings) { return to_json(ceilings).dump(); }

DeviceCeilings ceilings_from_json_text(const std::string& text) {
  return from_json(Json::parse(text));
}

}  // namespace weft
