#include "trainer/config/device_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <sstream>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"

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
  throw UsageError(
      fmt::format("--device-profile {} is neither a file nor one of {}", name_or_path, known));
}

}  // namespace

DeviceProfile find_device_profile(const std::string& name_or_path) {
  const auto fail = [&](const std::string& what) {
    throw UsageError(fmt::format("--device-profile {}: {}", name_or_path, what));
  };
  DeviceProfile profile;
  struct Number {
    int64_t* value;
    int64_t unit;
  };
  constexpr int64_t kMib = 1 << 20;
  const std::map<std::string, Number> numbers = {
      {"memory_mib", {&profile.memory_bytes, kMib}},
      {"context_mib", {&profile.context_bytes, kMib}},
      {"host_memory_mib", {&profile.host_memory_bytes, kMib}},
      {"multiprocessors", {&profile.num_multiprocessors, 1}}};
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
    int64_t count = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
    const bool sound = error == std::errc{} && end == value.data() + value.size();
    const auto [number, unit] = found->second;
    if (!sound || count < 0 || count > int64_t{1} << 32)
      fail(key + " is no number" + (unit == kMib ? " of MiB" : ""));
    *number = count * unit;
  }
  if (profile.name.empty()) fail("has no line \"name NAME\"");
  if (profile.free_bytes() <= 0) fail("memory_mib is missing, or not above context_mib");
  return profile;
}

}  // namespace weft
