#include "indexed_dataset/beside/part_versions.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "indexed_dataset/beside/dataset_manifest.h"
#include "indexed_dataset/beside/shard.h"
#include "indexed_dataset/beside/source_map.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// A part's sources or manifest record this of an input.
struct InputVersion {
  std::string part;
  int64_t file_bytes = -1;  // -1 if it is not known
  std::string version;      // of the manifest; "" if it is not known
};

// A local file's version is its time (preprocess/ledger/work_plan.cpp), which copies of it need not
// share.
bool is_time(const std::string& version) { return version.starts_with("changed "); }

std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

using InputKey = std::pair<std::string, int>;  // the name, and how many of that name came before

// One part of the merge, as far as it is a shard.
struct Shard {
  explicit Shard(const DatasetReader& reader) : part(reader.prefix().string()) {
    if (const auto manifest = read_dataset_manifest(reader.prefix())) {
      program_version = text_of(manifest->json, "version");
      is_known = parse_shard(manifest->option("shard"), index, count);
      options = manifest->json.value("run_options", Json());
      if (options.is_object()) options.erase("--shard");
      read_versions(manifest->json.value("inputs", Json()));
    }
    const auto sources = open_source_map_of(reader);
    std::map<std::string, int> num_seen;
    for (size_t i = 0; sources && i < sources->inputs().size(); ++i) {
      const InputKey key{sources->inputs()[i], num_seen[sources->inputs()[i]]++};
      const std::optional<InputPart>& input = sources->parts()[i];
      if (!input) continue;
      is_shard = true;
      inputs[key].file_bytes = input->file_bytes;
      if (input->is_empty()) continue;
      if (read_inputs.empty() && input->file_begin == 0) begun_input = key;
      read_inputs.push_back(key);
    }
    is_shard = is_shard || (is_known && count > 1);
  }

  std::string part, program_version;
  bool is_shard = false;  // it, or shards that an earlier merge has put together
  bool is_known = false;  // its index and their count
  int64_t index = 0, count = 0;
  Json options;
  std::map<InputKey, InputVersion> inputs;
  std::vector<InputKey> read_inputs;    // of which it has some bytes
  std::optional<InputKey> begun_input;  // the first of them, if its first line is the input's

 private:
  void read_versions(const Json& list) {
    std::map<std::string, int> num_seen;
    for (const Json& input : list.is_array() ? list : Json::array()) {
      if (!input.is_object()) continue;
      const std::string name = text_of(input, "path");
      inputs[{name, num_seen[name]++}].version = text_of(input, "version");
    }
  }
};

// The shards of one run, as far as they have been met.
class ShardRun {
 public:
  bool contains_another(const Shard& shard) const {
    if (!shard.is_known) return !shard.begun_input || !read_inputs_.contains(*shard.begun_input);
    return (count_ == 0 || count_ == shard.count) && !indexes_.contains(shard.index);
  }

  void add(const Shard& shard, std::vector<std::string>& notes) {
    if (shard.is_known) {
      count_ = shard.count;
      indexes_.insert(shard.index);
    }
    read_inputs_.insert(shard.read_inputs.begin(), shard.read_inputs.end());
    if (first_.empty()) {
      first_ = shard.part;
      options_ = shard.options;
    } else if (options_.is_object() && shard.options.is_object() && options_ != shard.options) {
      notes.push_back(fmt::format("{} and {} are shards that were made with other options{}",
                                  first_, shard.part, name_of_difference(shard.options)));
    }
    for (const auto& [input, version] : shard.inputs)
      compare(input.first, seen_[input], shard.part, version, notes);
  }

 private:
  std::string name_of_difference(const Json& options) const {
    for (const auto& [name, value] : options.items()) {
      if (options_.value(name, Json()) != value) return " (" + name + ")";
    }
    return "";
  }

  static void compare(const std::string& input, InputVersion& seen, const std::string& part,
                      const InputVersion& version, std::vector<std::string>& notes) {
    if (seen.part.empty()) {
      seen = version;
      seen.part = part;
      return;
    }
    const bool is_another_size =
        seen.file_bytes >= 0 && version.file_bytes >= 0 && seen.file_bytes != version.file_bytes;
    const bool is_another_version =
        !seen.version.empty() && !version.version.empty() && seen.version != version.version;
    if (is_another_size) {
      throw std::runtime_error(fmt::format(
          "{} and {} are shards of two versions of {}, which had {} bytes and then {}: documents "
          "would be missing and others come twice; make the shards of one version",
          seen.part, part, input, seen.file_bytes, version.file_bytes));
    }
    if (is_another_version && !(is_time(seen.version) && is_time(version.version))) {
      throw std::runtime_error(fmt::format(
          "{} and {} are shards of two versions of {} ('{}' and '{}'): documents would be missing "
          "and others come twice; make the shards of one version",
          seen.part, part, input, seen.version, version.version));
    }
    if (is_another_version) {
      notes.push_back(fmt::format(
          "{} had one time of change when {} was made and another for {}, and the same size: "
          "unless they are copies, the result is of two versions",
          input, seen.part, part));
    }
  }

  std::string first_;  // the part that began the run
  Json options_;
  int64_t count_ = 0;  // 0 if it is not known
  std::set<int64_t> indexes_;
  std::set<InputKey> read_inputs_;
  std::map<InputKey, InputVersion> seen_;
};

}  // namespace

std::vector<std::string> compare_part_versions(const PairMerge& pairs) {
  std::vector<std::string> notes;
  ShardRun run;
  std::pair<std::string, std::string> first_version;  // the program's, and the part that names it
  bool has_noted_version = false;
  for (const PairMerge::Part& part : pairs.parts()) {
    const Shard shard(part.reader);
    if (!shard.program_version.empty()) {
      if (first_version.first.empty()) first_version = {shard.program_version, shard.part};
      if (shard.program_version != first_version.first && !has_noted_version) {
        has_noted_version = true;
        notes.push_back(fmt::format("{} was made by weft-data {}, {} by {}", first_version.second,
                                    first_version.first, shard.part, shard.program_version));
      }
    }
    if (!shard.is_shard) continue;
    if (!run.contains_another(shard)) run = ShardRun();
    run.add(shard, notes);
  }
  return notes;
}

}  // namespace weft
