#include "preprocess/stores/hub_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/stores/path_pattern.h"
#include "preprocess/web/hugging_face.h"
#include "preprocess/web/url.h"

namespace weft {
namespace {

constexpr std::string_view kScheme = "hf://";

[[noreturn]] void refuse(const std::string& address, const std::string& why) {
  throw UsageError("'" + address + "': " + why +
                   "; an address of the hub is hf://datasets/OWNER/NAME[@REVISION]/PATH");
}

}  // namespace

HubAddress parse_hub_address(const std::string& address) {
  static const std::regex form(
      "hf://datasets/([\\w.-]+/[\\w.-]+)(@(refs/convert/[\\w.-]+|refs/pr/\\d+|[^/]+))?(/(.*))?",
      std::regex::ECMAScript | std::regex::optimize);
  constexpr size_t kMaxBytes = 4096;  // the library matches by recursion
  if (address.size() > kMaxBytes) refuse(address.substr(0, 100), "is too long");
  std::smatch match;
  if (!std::regex_match(address, match, form)) {
    const bool is_dataset = address.starts_with(std::string(kScheme) + "datasets/");
    refuse(address, is_dataset ? "does not name OWNER/NAME" : "is not of a dataset");
  }
  HubAddress parsed{match[1], percent_decoded(match[3].str()), match[5]};
  if (parsed.revision.empty()) parsed.revision = "main";
  if (!is_sound_path(parsed.dataset) || !is_sound_path(parsed.revision))
    refuse(address, "does not name a dataset");
  if (!is_sound_path(parsed.path)) refuse(address, "its path is none of files there");
  return parsed;
}

bool is_commit(const std::string& revision) {
  return revision.size() == 40 && std::all_of(revision.begin(), revision.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string HubAddress::at(const std::string& other_revision, const std::string& other_path) const {
  const bool is_special = other_revision.starts_with("refs/");
  return std::string(kScheme) + "datasets/" + dataset + "@" +
         (is_special ? other_revision : percent_encoded(other_revision)) + "/" + other_path;
}

std::string HubAddress::page() const { return hugging_face_endpoint() + "/datasets/" + dataset; }

std::string HubAddress::api_url(const std::string& what) const {
  return hugging_face_endpoint() + "/api/datasets/" + dataset + "/" + what + "/" +
         percent_encoded(revision);
}

std::string HubAddress::resolve_url() const {
  return page() + "/resolve/" + percent_encoded(revision) + "/" + percent_encoded(path, "/");
}

std::string describe_moved_commit(const std::vector<std::string>& before,
                                  const std::vector<std::string>& after) {
  std::map<std::string, std::string> commits;  // by dataset
  for (const std::string& address : after) {
    if (!address.starts_with(kScheme)) continue;
    const HubAddress parsed = parse_hub_address(address);
    commits[parsed.dataset] = parsed.revision;
  }
  for (const std::string& address : before) {
    if (!address.starts_with(kScheme)) continue;
    const HubAddress parsed = parse_hub_address(address);
    const auto now = commits.find(parsed.dataset);
    if (now == commits.end() || now->second == parsed.revision) continue;
    return fmt::format(
        "'{}' has moved on the hub: it was at commit {}, and is at {} now; {} names "
        "what was read before",
        parsed.dataset, parsed.revision, now->second, parsed.at(parsed.revision, "..."));
  }
  return "";
}

}  // namespace weft
