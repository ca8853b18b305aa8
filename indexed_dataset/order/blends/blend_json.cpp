#include "indexed_dataset/order/blends/blend_json.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "indexed_dataset/base/process/json_integer.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr Split kSplits[] = {Split::kTrain, Split::kValid, Split::kTest};

Json json_of(const Blend& blend) {
  return {{"name", blend.name},
          {"prefixes", blend.prefixes},
          {"weights", blend.weights},
          {"shares", blend.shares}};
}

Blend blend_from(const Json& json) {
  Blend blend;
  json.at("name").get_to(blend.name);
  json.at("prefixes").get_to(blend.prefixes);
  json.at("weights").get_to(blend.weights);
  json.at("shares").get_to(blend.shares);
  const size_t count = blend.prefixes.size();
  const auto fits = [count](size_t size) { return size == 0 || size == count; };
  if (count == 0 || !fits(blend.weights.size()) || !fits(blend.shares.size()))
    throw std::runtime_error("a blend whose prefixes, weights and shares are not equally many");
  return blend;
}

}  // namespace

Json to_json(const SplitBlends& blends) {
  Json json = {{"own_paths", blends.has_own_paths}};
  for (const Split split : kSplits) {
    Json& list = json[std::string(short_split_name(split))] = Json::array();
    for (const Blend& blend : blends.of(split)) list.push_back(json_of(blend));
  }
  for (const BlendChange& change : blends.changes) {
    Json& entry = json["changes"].emplace_back(Json{{"blend", json_of(change.blend)}});
    if (change.from_samples) entry["from_samples"] = *change.from_samples;
    if (change.from_tokens) entry["from_tokens"] = *change.from_tokens;
  }
  return json;
}

SplitBlends split_blends_from_json(const Json& json) {
  SplitBlends blends;
  json.at("own_paths").get_to(blends.has_own_paths);
  for (const Split split : kSplits) {
    for (const Json& blend : json.at(std::string(short_split_name(split))))
      blends.blends[static_cast<size_t>(split)].push_back(blend_from(blend));
  }
  if (const auto changes = json.find("changes"); changes != json.end()) {
    for (const Json& entry : *changes) {
      BlendChange& change = blends.changes.emplace_back();
      change.blend = blend_from(entry.at("blend"));
      const bool is_in_samples = entry.contains("from_samples");
      const int64_t first = json_integer_at(entry, is_in_samples ? "from_samples" : "from_tokens");
      if (first < 1) throw std::runtime_error("a blend that begins with " + std::to_string(first));
      (is_in_samples ? change.from_samples : change.from_tokens) = first;
    }
  }
  return blends;
}

void resolve_prefixes(SplitBlends& blends, const std::filesystem::path& working_directory) {
  const auto resolve = [&](Blend& blend) {
    blend.spellings = blend.prefixes;
    for (std::string& prefix : blend.prefixes) prefix = (working_directory / prefix).string();
  };
  for (auto& of_split : blends.blends) {
    for (Blend& blend : of_split) resolve(blend);
  }
  for (BlendChange& change : blends.changes) resolve(change.blend);
}

}  // namespace weft
