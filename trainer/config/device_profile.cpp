#include "trainer/config/device_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <sstream>
#include <stdexcept>

#include "indexed_dataset/base/storage/file_io.h"
#include "kernels/flash_attention.h"
#include "kernels/unfused_attention.h"

namespace weft {

namespace {

struct BuiltIn {
  const char *name, *text;
};

constexpr BuiltIn kBuiltIn[] = {
#include <weft_device_profiles.inc>
};

std::string text_of(const std::string& name_or_path) {
  std::string known;
  for (const auto& [name, text] : kBuiltIn) {
    if (name_or_path == name) return text;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  if (std::filesystem::is_regular_file(name_or_path)) return read_file(name_or_path);
  throw std::invalid_argument(
      fmt::format("--device-profile {} is neither a file nor one of {}", name_or_path, known));
}

}  // namespace

int64_t DeviceProfile::workspace_bytes(const ModelShape& shape, int64_t tp_size) const {
  // Attention keeps in memory what its backward sums, or without flash kernels scores of some heads. The embedding's
  // backward sorts the tokens and sums pieces of 32 rows (kernels/cuda, *_scratch_bytes). Operations take the same workspace
  // one after the other.
  const int64_t B = shape.micro_batch_size, T = shape.seq_length, D = shape.head_size;
  const int64_t H = shape.num_heads / tp_size;
  const int64_t tokens = B * T;
  const int64_t attention = has_flash_attention(D)
                                ? flash_backward_bytes(B, T, H, D, shape.attention_sums_qkv_bias())
                                : unfused_scratch(T, H, D, shape.dtype).num_bytes;
  const int64_t embedding = tokens * (shape.hidden_size / 4 + 64);
  // Quantizing sums columns over 64 rows at a time.
  const int64_t quantizing =
      shape.fp8 ? (tokens + 63) / 64 * 4 * std::max(shape.qkv_size(), shape.fc1_size()) + 256 : 0;
  return gemm_workspace_bytes + std::max({attention, embedding, quantizing});
}

DeviceProfile find_device_profile(const std::string& name_or_path) {
  const auto fail = [&](const std::string& what) {
    throw std::invalid_argument(fmt::format("--device-profile {}: {}", name_or_path, what));
  };
  DeviceProfile profile;
  std::map<std::string, int64_t*> numbers = {{"memory_mib", &profile.memory_bytes},
                                             {"context_mib", &profile.context_bytes},
                                             {"workspace_mib", &profile.gemm_workspace_bytes},
                                             {"host_memory_mib", &profile.host_memory_bytes}};
  std::istringstream lines(text_of(name_or_path));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    const size_t blank = line.find(' ');
    const std::string key = line.substr(0, blank);
    const std::string value = blank == std::string::npos ? "" : line.substr(blank + 1);
    if (key == "name") {
      profile.name = value;
      continue;
    }
    if (key == "fp8") {
      if (value != "yes" && value != "no") fail("fp8 is neither yes nor no");
      profile.has_fp8 = value == "yes";
      continue;
    }
    const auto found = numbers.find(key);
    if (found == numbers.end()) fail("unknown line \"" + line + "\"");
    int64_t mib = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), mib);
    const bool sound = error == std::errc{} && end == value.data() + value.size();
    if (!sound || mib < 0 || mib > int64_t{1} << 32) fail(key + " is no number of MiB");
    *found->second = mib << 20;
  }
  if (profile.name.empty()) fail("has no line \"name NAME\"");
  if (profile.free_bytes() <= 0) fail("memory_mib is missing, or not above context_mib");
  return profile;
}

}  // namespace weft
