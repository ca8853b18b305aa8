#include "preprocess/datasets/merge_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "indexed_dataset/process/parse_json.h"
#include "indexed_dataset/storage/file_io.h"
#include "preprocess/datasets/dataset_manifest.h"
#include "preprocess/datasets/json_integer.h"
#include "preprocess/datasets/shard.h"

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
      // The sum is unsigned, because the numbers of a strange manifest may overflow.
      const auto before = sum.contains(name) ? sum[name].get<uint64_t>() : 0;
      sum[name] = static_cast<int64_t>(before + value.get<uint64_t>());
    }
  }
}

// Returns null if the file is no JSON that could be ours.
Json parsed_or_nothing(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  try {
    return parse_json<Json>(text);
  } catch (const std::exception&) {
    return {};
  }
}

// Returns the value of an option in a manifest; "" if there is none.
std::string option_in(const Json& manifest, const char* name) {
  if (!manifest.is_object() || !manifest.contains("options")) return "";
  const Json& options = manifest["options"];
  if (!options.is_object() || !options.contains(name) || !options[name].is_string()) return "";
  return options[name].get<std::string>();
}

std::string option_of(const std::filesystem::path& prefix, const char* name) {
  if (!std::filesystem::exists(manifest_path(prefix))) return "";
  return option_in(parsed_or_nothing(manifest_path(prefix)), name);
}

// Lists the inputs of all parts. Shards of one run that follow each other are put together, so that
// the list is that of the whole run.
class MergedInputs {
 public:
  void add(const Json& manifest) {
    try {
      is_known_ = is_known_ && try_add(manifest);
    } catch (const std::exception&) {  // a strange manifest
      is_known_ = false;
    }
  }
  // Returns null if not all of them are known: a list of some would be taken for all.
  Json all() const { return is_known_ && next_shard_ == 0 ? all_ : Json(); }

 private:
  bool try_add(const Json& manifest) {
    const Json inputs = manifest.value("inputs", Json());
    int64_t shard = 0, num_shards = 1;
    const std::string option = option_in(manifest, "shard");
    if (!option.empty() && !parse_shard(option, shard, num_shards)) return false;
    if (!inputs.is_array() || shard != next_shard_) return false;
    Json options = manifest.value("run_options", Json::object());
    if (options.is_object()) options.erase("--shard");
    if (shard == 0) {
      run_ = inputs;
      run_options_ = options;
      num_shards_ = num_shards;
    } else if (num_shards != num_shards_ || options != run_options_ || !append(inputs)) {
      return false;
    }
    next_shard_ = shard + 1 < num_shards ? shard + 1 : 0;
    if (next_shard_ == 0) all_.insert(all_.end(), run_.begin(), run_.end());
    return true;
  }

  bool append(const Json& inputs) {
    if (inputs.size() != run_.size()) return false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!append(run_[i], inputs[i])) return false;
    }
    return true;
  }

  // The next part of one input.
  static bool append(Json& sum, const Json& next) {
    for (const char* name : {"path", "version"}) {
      if (sum.value(name, Json()) != next.value(name, Json())) return false;
    }
    if (json_integer(next.at("lines")) < 0) return false;
    for (const char* name : {"file_bytes", "jsonl_bytes", "lines"}) {
      int64_t count = 0;
      if (__builtin_add_overflow(json_integer(sum.at(name)), json_integer(next.at(name)), &count))
        return false;
      sum[name] = count;
    }
    return true;
  }

  bool is_known_ = true;
  Json all_ = Json::array();
  Json run_, run_options_;  // what the shards of one run so far have in common
  int64_t next_shard_ = 0, num_shards_ = 1;
};

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
  MergedInputs inputs;
  for (const PairMerge::Part& part : pairs.parts()) {
    const std::filesystem::path& prefix = part.reader.prefix();
    parts.push_back({{"prefix", std::filesystem::absolute(prefix).string()},
                     {"documents", part.num_documents},
                     {"tokens", part.reader.num_tokens()}});
    const auto stored = read_dataset_manifest(prefix);
    if (!stored) {
      all_have_counts = false;
      inputs.add({});
      continue;
    }
    const Json manifest = parse_json<Json>(read_file(manifest_path(prefix)));
    inputs.add(manifest);
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
  if (Json all = inputs.all(); !all.is_null()) manifest["inputs"] = std::move(all);
  // A sum over some of the parts would be taken for one over all.
  if (all_have_counts) manifest["input_counts"] = counts;
  manifest["dataset"] = {{"documents", pairs.num_documents()}, {"tokens", pairs.num_tokens()}};
  return manifest.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string difference_from_merged(const std::filesystem::path& path, const std::string& manifest) {
  if (!std::filesystem::exists(path))
    return "which has no manifest: it was not made by this command";
  const Json there = parsed_or_nothing(path);
  const Json wanted = Json::parse(manifest);
  if (!there.is_object() || !there.contains("parts") || !there["parts"].is_array())
    return "which merge has not made";
  const Json &before = there["parts"], &after = wanted["parts"];
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    if (before[i] == after[i]) continue;
    const auto prefix_of = [](const Json& part) {
      return part.is_object() && part.contains("prefix")
                 ? part["prefix"].dump(-1, ' ', false, Json::error_handler_t::replace)
                 : "?";
    };
    if (prefix_of(before[i]) == prefix_of(after[i]))
      return "made when part " + prefix_of(after[i]) + " was another one";
    return fmt::format("made of other parts (part {}: was {}, is {})", i + 1, prefix_of(before[i]),
                       prefix_of(after[i]));
  }
  if (before.size() != after.size())
    return fmt::format("made of other parts (was {} of them, is {})", before.size(), after.size());
  for (const char* name : {"vocabulary", "input_counts", "dataset"}) {
    if (there.value(name, Json()) != wanted.value(name, Json()))
      return fmt::format("made when the parts were others ({})", name);
  }
  return "";
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
