#include "indexed_dataset/format/merge/shard_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "indexed_dataset/format/sidecars/dataset_manifest.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kAdvice[] =
    "; merge all shards of one run (a dataset is merged as any other without its .manifest.json)";

// All shards whose manifests say the same.
struct ShardRun {
  int64_t count = 0;
  Json options, inputs;                  // --shard is no part of the options
  std::map<int64_t, std::string> parts;  // by their index
};

std::string text_at(const Json& input, const char* name) {
  const auto found = input.find(name);
  return found != input.end() && found->is_string() ? found->get<std::string>() : "";
}

// Paths and versions of the inputs: the rest of a manifest's list counts what the shard has read.
Json inputs_of(const Json& manifest) {
  Json inputs = Json::array();
  const Json list = manifest.value("inputs", Json());
  for (const Json& input : list.is_array() ? list : Json::array()) {
    if (input.is_object()) inputs.push_back({text_at(input, "path"), text_at(input, "version")});
  }
  return inputs;
}

// Says what differs between two runs; "" if they read other inputs and have nothing in common.
std::string difference(const ShardRun& a, const ShardRun& b) {
  if (a.inputs.size() != b.inputs.size()) return "";
  std::string text;
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    if (a.inputs[i][0] != b.inputs[i][0]) return "";
    if (a.inputs[i][1] == b.inputs[i][1] || !text.empty()) continue;
    text = fmt::format(
        "of two versions of {} ('{}' and '{}'): documents may be missing and others come twice, "
        "unless these are copies of one file",
        a.inputs[i][0].get<std::string>(), a.inputs[i][1].get<std::string>(),
        b.inputs[i][1].get<std::string>());
  }
  if (!text.empty()) return text;
  for (const auto& [name, value] : a.options.items()) {
    if (b.options.value(name, Json()) != value) return "made with other options (" + name + ")";
  }
  return a.count == b.count ? "made with other options" : "of runs with other numbers of shards";
}

std::vector<ShardRun> runs_of(const PairMerge& pairs) {
  std::vector<ShardRun> runs;
  for (const PairMerge::Part& part : pairs.parts()) {
    const auto manifest = read_dataset_manifest(part.reader.prefix());
    ShardRun own;
    int64_t index = 0;
    if (!manifest || !parse_shard(manifest->option("shard"), index, own.count) || own.count == 1)
      continue;
    own.options = manifest->json.value("run_options", Json::object());
    if (!own.options.is_object()) own.options = Json::object();  // that of a strange manifest
    own.options.erase("--shard");
    own.inputs = inputs_of(manifest->json);
    auto run = std::find_if(runs.begin(), runs.end(), [&](const ShardRun& other) {
      return other.count == own.count && other.options == own.options && other.inputs == own.inputs;
    });
    if (run == runs.end()) run = runs.insert(run, std::move(own));
    const std::string prefix = part.reader.prefix().string();
    const auto [place, is_new] = run->parts.try_emplace(index, prefix);
    if (!is_new) {
      throw std::runtime_error(fmt::format("shard {}/{} is there twice: {} and {}{}", index,
                                           run->count, place->second, prefix, kAdvice));
    }
  }
  return runs;
}

}  // namespace

void check_shards(const PairMerge& pairs) {
  const std::vector<ShardRun> runs = runs_of(pairs);
  for (const ShardRun& run : runs) {
    if (std::ssize(run.parts) == run.count) continue;
    const std::string& part = run.parts.begin()->second;
    for (const ShardRun& other : runs) {
      const std::string text = &other == &run ? "" : difference(run, other);
      if (text.empty()) continue;
      throw std::runtime_error(fmt::format("{} and {} are shards {}{}", part,
                                           other.parts.begin()->second, text, kAdvice));
    }
    int64_t missing = 0;
    while (run.parts.contains(missing)) ++missing;
    throw std::runtime_error(fmt::format("{} is one of {} shards, of which {}/{} is missing{}",
                                         part, run.count, missing, run.count, kAdvice));
  }
}

}  // namespace weft
