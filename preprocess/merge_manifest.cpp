#include "preprocess/merge_manifest.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "indexed_dataset/file_io.h"
#include "preprocess/dataset_manifest.h"
#include "preprocess/parse_json.h"
#include "preprocess/work_plan.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// Adds the numbers of `from` to those of `sum`, objects field by field.
void add_counts(Json& sum, const Json& from) {
  for (const auto& [name, value] : from.items()) {
    if (value.is_object()) {
      if (!sum.contains(name)) sum[name] = Json::object();
      add_counts(sum[name], value);
    } else if (value.is_number_integer()) {
      // Unsigned: numbers of a strange manifest may overflow.
      const auto before = sum.contains(name) ? sum[name].get<uint64_t>() : 0;
      sum[name] = static_cast<int64_t>(before + value.get<uint64_t>());
    }
  }
}

// Null where it is no JSON that could be ours.
Json parsed_or_nothing(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  try {
    return parse_json<Json>(text);
  } catch (const std::exception&) {
    return {};
  }
}

// Of an option in a part's manifest; "" if there is none.
std::string option_of(const std::filesystem::path& prefix, const char* name) {
  if (!std::filesystem::exists(manifest_path(prefix))) return "";
  const Json manifest = parsed_or_nothing(manifest_path(prefix));
  if (!manifest.is_object() || !manifest.contains("options")) return "";
  const Json& options = manifest["options"];
  if (!options.is_object() || !options.contains(name) || !options[name].is_string()) return "";
  return options[name].get<std::string>();
}

}  // namespace

std::string merged_manifest(const MergeConfig& config, const PairMerge& pairs) {
  Json parts = Json::array(), counts = Json::object();
  Json vocabulary = {{"size", 0},
                     {"vocab_file", ""},
                     {"vocab_sha256", ""},
                     {"merge_file", ""},
                     {"merge_sha256", ""}};
  std::filesystem::path vocabulary_of;
  bool all_have_counts = true;
  for (const PairMerge::Part& part : pairs.parts()) {
    const std::filesystem::path& prefix = part.reader.prefix();
    parts.push_back({{"prefix", std::filesystem::absolute(prefix).string()},
                     {"documents", part.num_documents},
                     {"tokens", part.reader.num_tokens()}});
    const auto stored = read_dataset_manifest(prefix);
    if (!stored) {
      all_have_counts = false;
      continue;
    }
    const Json manifest = parse_json<Json>(read_file(manifest_path(prefix)));
    all_have_counts &= manifest.contains("input_counts");
    if (all_have_counts) {
      try {
        add_counts(counts, manifest["input_counts"]);
      } catch (const Json::exception& error) {
        throw std::runtime_error(manifest_path(prefix).string() +
                                 ": input_counts: " + error.what());
      }
    }
    if (stored->vocab_sha256.empty()) continue;
    if (vocabulary_of.empty()) {
      vocabulary = manifest["vocabulary"];
      vocabulary_of = prefix;
    } else if (vocabulary["vocab_sha256"] != stored->vocab_sha256 ||
               vocabulary["merge_sha256"] != stored->merge_sha256) {
      throw std::runtime_error(manifest_path(prefix).string() +
                               ": names another vocabulary than that of " + vocabulary_of.string() +
                               ": the same id would mean different text in one dataset");
    }
  }
  Json options = Json::object();
  for (const auto& [name, value] : config.options) options[name] = value;
  Json manifest = {{"program", "weft-data merge"},
                   {"version", config.program_version},
                   {"options", options},
                   {"vocabulary", vocabulary},
                   {"parts", parts}};
  // A sum over some of the parts would be taken for one over all.
  if (all_have_counts) manifest["input_counts"] = counts;
  manifest["dataset"] = {{"documents", pairs.num_documents()}, {"tokens", pairs.num_tokens()}};
  return manifest.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool is_merged_of_the_same(const std::filesystem::path& path, const std::string& manifest) {
  if (!std::filesystem::exists(path)) return false;
  Json there = parsed_or_nothing(path);
  Json wanted = Json::parse(manifest);
  if (!there.is_object()) return false;
  for (Json* json : {&there, &wanted}) {
    json->erase("options");
    json->erase("version");
  }
  return there == wanted;
}

std::string shards_out_of_order(const std::vector<std::filesystem::path>& prefixes) {
  std::string names, want;
  bool is_in_order = true;
  for (const std::filesystem::path& prefix : prefixes) {
    const std::string shard = option_of(prefix, "shard");
    int64_t index = 0, count = 1;
    if (!shard.empty() && !parse_shard(shard, index, count)) return "";
    names += (names.empty() ? "" : ", ") + (shard.empty() ? "none" : shard);
    const std::string first = fmt::format("0/{}", count);
    is_in_order &= fmt::format("{}/{}", index, count) == (want.empty() ? first : want);
    want = index + 1 < count ? fmt::format("{}/{}", index + 1, count) : "";
  }
  if (is_in_order && want.empty()) return "";
  return "the parts are not all shards of a run in their order, the result is not what one run "
         "makes: " +
         names;
}

}  // namespace weft
