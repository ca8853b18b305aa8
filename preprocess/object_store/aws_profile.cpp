#include "preprocess/object_store/aws_profile.h"

#include <filesystem>
#include <string_view>

#include "indexed_dataset/base/process/environment.h"
#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/base/terminal/text_pieces.h"

namespace weft {
namespace {

using Section = std::map<std::string, std::string>;

// The settings of each section, as "region", and "s3.endpoint_url" of those that are indented
// below "s3 =".
std::map<std::string, Section> read_sections(const std::string& file) {
  std::map<std::string, Section> sections;
  if (!std::filesystem::exists(file)) return sections;
  const std::string text = read_file(file);
  std::string section, outer;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::string_view words = trimmed(line);
    if (words.empty() || words.front() == '#' || words.front() == ';') continue;
    if (words.front() == '[') {
      section = trimmed(words.substr(1, words.find(']') - 1));
      outer.clear();
      sections[section];
      continue;
    }
    const size_t equals = words.find('=');
    if (equals == words.npos) continue;
    const std::string name(trimmed(words.substr(0, equals)));
    std::string_view value = trimmed(words.substr(equals + 1));
    // A comment stands behind a space.
    for (const std::string_view mark : {" #", " ;"})
      value = trimmed(value.substr(0, value.find(mark)));
    const bool is_indented = line.front() == ' ' || line.front() == '\t';
    if (!is_indented) outer = value.empty() ? name : "";
    sections[section][is_indented && !outer.empty() ? outer + "." + name : name] = value;
  }
  return sections;
}

std::string file_named_by(const char* variable, const char* usual) {
  const std::string named = environment_text(variable);
  return named.empty() ? environment_text("HOME") + usual : named;
}

}  // namespace

std::string AwsProfile::get(const std::string& setting) const {
  const auto found = settings.find(setting);
  return found == settings.end() ? "" : found->second;
}

AwsProfile read_aws_profile() {
  AwsProfile profile;
  const std::string wanted = environment_text("AWS_PROFILE");
  profile.name = wanted.empty() ? "default" : wanted;
  auto config = read_sections(file_named_by("AWS_CONFIG_FILE", "/.aws/config"));
  auto keys = read_sections(file_named_by("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials"));
  const std::string in_config = profile.name == "default" && !config.contains("profile default")
                                    ? "default"
                                    : "profile " + profile.name;
  profile.is_there = config.contains(in_config) || keys.contains(profile.name);
  if (!profile.is_there && !wanted.empty()) {
    throw UsageError("AWS_PROFILE: there is no profile '" + escape_for_terminal(wanted) +
                     "' in the AWS configuration files (aws configure list-profiles)");
  }
  if (!profile.is_there) return profile;
  profile.settings = keys[profile.name];
  profile.settings.merge(config[in_config]);
  Section& services = config["services " + profile.get("services")];
  profile.s3_endpoint = services["s3.endpoint_url"];
  if (profile.s3_endpoint.empty()) profile.s3_endpoint = profile.get("endpoint_url");
  return profile;
}

}  // namespace weft
