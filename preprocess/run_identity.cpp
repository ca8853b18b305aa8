#include "preprocess/run_identity.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <nlohmann/json.hpp>

#include "preprocess/byte_source.h"
#include "preprocess/task_json.h"

namespace weft {
namespace {

using Json = nlohmann::json;

}  // namespace

std::string run_identity(const PipelineConfig& config, TokenType type,
                         const std::vector<InputIdentity>& inputs) {
  const TokenizeRules& rules = config.rules;
  Json list = Json::array();
  for (const InputIdentity& input : inputs) {
    list.push_back({{"path", display_name(input.path)},
                    {"version", input.version},
                    {"bytes", input.file_bytes}});
  }
  const Json identity = {
      {"weft-data preprocess", 1},
      {"inputs", list},
      {"options",
       {{"--json-keys", rules.json_keys},
        {"--append-eod", rules.append_eod},
        {"--special", static_cast<int>(rules.special_tokens)},
        {"--empty-docs", static_cast<int>(rules.empty_documents)},
        {"--max-line-bytes", rules.max_line_bytes},
        {"--dtype", static_cast<int>(type)},
        {"--partitions", config.num_partitions},
        {"--shard", fmt::format("{}/{}", config.shard_idx, config.num_shards)},
        {"vocabulary", config.vocabulary_id},
        {"task bytes", config.task_bytes}}},
  };
  return dump_lenient(identity);
}

std::string run_hash(const std::string& identity) {
  const XXH128_hash_t hash = XXH3_128bits(identity.data(), identity.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

IdentityDifference difference(const std::string& earlier, const std::string& now) {
  IdentityDifference difference;
  const Json before = Json::parse(earlier, nullptr, false);
  const Json after = Json::parse(now);
  if (!before.is_object() || !before.contains("options") || !before.contains("inputs")) {
    difference.text = "made by another version of weft-data";
    return difference;
  }
  for (const auto& [name, value] : after.at("options").items()) {
    const Json was = before["options"].value(name, Json());
    if (was == value) continue;
    difference.text += fmt::format("{}{}: was {}, is {}", difference.text.empty() ? "" : "; ", name,
                                   dump_lenient(was), dump_lenient(value));
  }
  difference.inputs_only = difference.text.empty();
  if (before["inputs"] != after.at("inputs")) {
    difference.text += difference.text.empty() ? "" : "; ";
    difference.text += "the inputs are others, or have changed";
  }
  for (const Json& input : before["inputs"]) {
    difference.is_lost = difference.is_lost || input.value("version", "").empty();
  }
  return difference;
}

}  // namespace weft
