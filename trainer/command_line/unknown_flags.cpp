#include "trainer/command_line/unknown_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "indexed_dataset/base/process/nearest_name.h"
#include "trainer/command_line/megatron_flags.h"

namespace weft {

namespace {

std::string slip_line(const std::string& flag, const std::vector<std::string>& flags) {
  const std::string_view ours = megatron_name_of(flag);
  if (!ours.empty())
    return fmt::format("unknown flag {}: Megatron's name for it is {}", flag, ours);
  const std::string nearest = nearest_name(flag, flags);
  return nearest.empty() ? fmt::format("unknown flag {}; --help-all lists all", flag)
                         : fmt::format("unknown flag {}: did you mean {}?", flag, nearest);
}

}  // namespace

UnknownFlags unknown_flags(const std::vector<std::string>& extras,
                           const std::vector<std::string>& flags) {
  UnknownFlags unknown;
  std::map<std::string_view, std::string> of_subjects;
  bool is_value = false;  // of an unknown flag, and no problem of its own
  for (const std::string& extra : extras) {
    const std::string flag = extra.substr(0, extra.find('='));
    if (!flag.starts_with("-")) {
      if (!is_value) {
        unknown.problems.push_back(fmt::format("{}: every argument belongs to a --flag", flag));
        unknown.are_slips = true;
      }
      continue;
    }
    is_value = true;
    const std::string_view subject = missing_subject_of(flag);
    if (subject.empty()) {
      unknown.problems.push_back(slip_line(flag, flags));
      unknown.are_slips = true;
    } else if (std::string& given = of_subjects[subject]; given.find(flag) == std::string::npos) {
      given += (given.empty() ? "" : ", ") + flag;
    }
  }
  for (const auto& [subject, given] : of_subjects)
    unknown.problems.push_back(fmt::format("{} not supported ({})", subject, given));
  return unknown;
}

}  // namespace weft
