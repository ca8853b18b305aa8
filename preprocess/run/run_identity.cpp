#include "preprocess/run/run_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/format/soundness/xxh3.h"
#include "preprocess/stores/hub_address.h"
#include "preprocess/stream/byte_source.h"

namespace weft {
namespace {

using SortedJson = nlohmann::json;

constexpr const char* kSpecialNames[] = {"literal", "token", "error"};  // by SpecialTokens
constexpr const char* kOriginKeyOption = "--origin-key";
constexpr const char* kLimitOption = "--limit";
constexpr const char* kWhereOption = "--where";
constexpr const char* kEodTokenOption = "--eod-token";
constexpr const char* kAddSpecialTokensOption = "--add-special-tokens";
constexpr const char* kSplitTextsOption = "--input-format text --split-at";
constexpr const char* kSplitNames[] = {"line", "blank-line", "file"};  // by SplitAt

// Paths may hold any bytes: those that are not UTF-8 are replaced, not refused.
std::string dump_lenient(const SortedJson& json) {
  return json.dump(-1, ' ', false, SortedJson::error_handler_t::replace);
}

bool is_identity(const SortedJson& json) {
  if (!json.is_object() || !json.contains("options") || !json["options"].is_object()) return false;
  if (!json.contains("inputs") || !json["inputs"].is_array()) return false;
  return std::all_of(json["inputs"].begin(), json["inputs"].end(), [](const SortedJson& input) {
    return input.is_object() && input.contains("path") && input["path"].is_string() &&
           input.contains("version") && input["version"].is_string();
  });
}

std::vector<std::string> paths_of(const SortedJson& inputs) {
  std::vector<std::string> paths;
  for (const SortedJson& input : inputs) paths.push_back(input.value("path", ""));
  return paths;
}

// Manifests know the version, but not the bytes.
bool has_changed(const SortedJson& before, const SortedJson& after) {
  return before.contains("bytes") ? before != after : before["version"] != after["version"];
}

// Names the first of `more` that is not among `fewer`, and how many others are not; "" unless
// `fewer` is `more` without some of them, in the same order.
std::string additions(const std::vector<std::string>& fewer, const std::vector<std::string>& more) {
  std::vector<std::string> added;
  size_t num_met = 0;
  for (const std::string& path : more) {
    if (num_met < fewer.size() && path == fewer[num_met]) {
      ++num_met;
    } else {
      added.push_back(path);
    }
  }
  if (num_met < fewer.size() || added.empty()) return "";
  const size_t num_others = added.size() - 1;
  return ", '" + added[0] + "'" + (num_others > 0 ? fmt::format(" and {} more", num_others) : "") +
         " in addition";
}

// The first input that differs, by name or by content.
std::string difference_of_inputs(const SortedJson& before, const SortedJson& after,
                                 Compared compared, const std::string& was, const std::string& is) {
  const std::vector<std::string> first = paths_of(before), second = paths_of(after);
  if (first.size() != second.size()) {
    const std::string came = additions(first, second), went = additions(second, first);
    if (!came.empty() || !went.empty())
      return fmt::format("inputs: {} {} of them{}, {} {}{}", was, first.size(), went, is,
                         second.size(), came);
  }
  for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (first[i] != second[i]) {
      return fmt::format("input {}: {} '{}', {} '{}'", i + 1, was, first[i], is, second[i]);
    }
    if (!has_changed(before[i], after[i])) continue;
    if (compared == Compared::kRuns) return fmt::format("the input '{}' has changed", first[i]);
    const auto file = [](const SortedJson& input) {
      return fmt::format("{} bytes, {}", dump_lenient(input["bytes"]),
                         input["version"].get<std::string>());
    };
    return fmt::format("the input '{}' is another file there: {} {}, {} {}", first[i], was,
                       file(before[i]), is, file(after[i]));
  }
  return "";
}

// A value as it stands on the command line.
std::string shown(const SortedJson& value) {
  if (value.is_string()) return dump_lenient(value);
  if (!value.is_array()) return value.is_null() ? "nothing" : dump_lenient(value);
  std::string words;
  for (const SortedJson& element : value) {
    if (!words.empty()) words += ' ';
    words += element.is_string() ? element.get<std::string>() : dump_lenient(element);
  }
  return dump_lenient(words);
}

}  // namespace

std::string utf8_name(const Input& input) {
  const std::string& name = input.name();
  return num_valid_utf8_bytes(name) == name.size() ? name : escape_for_terminal(name);
}

std::string run_identity(const PipelineConfig& config, TokenType type, const Inputs& inputs,
                         IdentityFor use) {
  const TokenizeRules& rules = config.rules;
  SortedJson list = SortedJson::array();
  for (const auto& input : inputs) {
    const InputIdentity& is = input->identity();
    list.push_back(
        {{"path", utf8_name(*input)}, {"version", is.version}, {"bytes", is.file_bytes}});
    if (use == IdentityFor::kJournal && !is.status_changed.empty())
      list.back()["status_changed"] = is.status_changed;
  }
  SortedJson identity = {
      {"weft-data preprocess", 1},
      {"inputs", list},
      {"options",
       {{"--json-keys", rules.json_keys},
        {"--append-eod", rules.append_eod},
        {"--special", kSpecialNames[static_cast<size_t>(rules.special_tokens)]},
        {"--empty-docs", rules.empty_documents == EmptyDocuments::kSkip ? "skip" : "record"},
        {"--max-line-bytes", rules.max_line_bytes},
        {"--dtype", type == TokenType::kUInt16 ? "uint16" : "int32"},
        {"--shard", fmt::format("{}/{}", config.shard_idx, config.num_shards)},
        {"vocabulary", config.vocabulary_id},
        {"task bytes", config.task_bytes}}},
  };
  // Only where it is used: runs of programs that did not know it are still the same.
  if (rules.keeps_origins()) identity["options"][kOriginKeyOption] = rules.origin_key;
  if (config.max_documents >= 0) identity["options"][kLimitOption] = config.max_documents;
  if (!rules.where.empty()) identity["options"][kWhereOption] = to_string(rules.where);
  if (rules.end_of_document) identity["options"][kEodTokenOption] = *rules.end_of_document;
  if (rules.add_special_tokens) identity["options"][kAddSpecialTokensOption] = true;
  if (rules.split_texts_at) {
    identity["options"][kSplitTextsOption] =
        kSplitNames[static_cast<size_t>(*rules.split_texts_at)];
  }
  return dump_lenient(identity);
}

std::string rank_identity(const PipelineConfig& config, const std::string& identity) {
  SortedJson json = SortedJson::parse(identity);
  SortedJson& options = json["options"];
  options["--output-prefix"] = config.work_prefix.string();
  options["--on-bad-line"] = config.rules.on_bad_line == OnBadLine::kSkip ? "skip" : "stop";
  options["--max-output"] = config.max_output_bytes;
  return dump_lenient(json);
}

std::string run_hash(const std::string& identity) {
  const XXH128_hash_t hash = XXH3_128bits(identity.data(), identity.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

IdentityDifference difference(const std::string& first, const std::string& second,
                              Compared compared) {
  const bool are_ranks = compared == Compared::kRanks;
  const std::string was = are_ranks ? "rank 0 has" : "was", is = are_ranks ? "that rank has" : "is";
  IdentityDifference difference;
  const SortedJson before = SortedJson::parse(first, nullptr, false);
  const SortedJson after = SortedJson::parse(second);
  if (!is_identity(before)) {
    difference.text = "made by another version of weft-data";
    return difference;
  }
  // An identity does not name the options that do nothing.
  const auto options_of = [](const SortedJson& identity) {
    SortedJson options = identity.at("options");
    for (const auto& [name, unused] :
         {std::pair<const char*, SortedJson>{kOriginKeyOption, kNoOriginKey},
          {kLimitOption, "none"},
          {kWhereOption, "none"},
          {kEodTokenOption, "the tokenizer's own"},
          {kAddSpecialTokensOption, false},
          {kSplitTextsOption, "not given (JSON lines)"}})
      if (!options.contains(name)) options[name] = unused;
    return options;
  };
  const SortedJson options_before = options_of(before), options_after = options_of(after);
  for (const auto& [name, value] : options_after.items()) {
    const SortedJson other = options_before.value(name, SortedJson());
    if (other == value) continue;
    if (!difference.text.empty()) difference.text += "; ";
    // Hashes say nothing to people.
    difference.text += name == "vocabulary" ? "another vocabulary"
                                            : fmt::format("{}: {} {}, {} {}", name, was,
                                                          shown(other), is, shown(value));
  }
  difference.same_options = difference.text.empty();
  std::string inputs =
      compared == Compared::kRuns
          ? describe_moved_commit(paths_of(before["inputs"]), paths_of(after.at("inputs")))
          : "";
  difference.has_moved = !inputs.empty();
  if (inputs.empty())
    inputs = difference_of_inputs(before["inputs"], after.at("inputs"), compared, was, is);
  difference.same_inputs = paths_of(before["inputs"]) == paths_of(after.at("inputs"));
  if (!difference.text.empty() && !inputs.empty()) difference.text += "; ";
  difference.text += inputs;
  for (const SortedJson& input : before["inputs"]) {
    difference.is_lost = difference.is_lost || input.value("version", "").empty();
  }
  return difference;
}

}  // namespace weft
