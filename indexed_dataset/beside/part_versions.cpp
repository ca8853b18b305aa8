#include "indexed_dataset/beside/part_versions.h"

#include <fmt/format.h>

#include <algorithm>
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

// The version of an input in a manifest: "changed TIME" of a local file (preprocess/ledger/work_plan.cpp),
// "BYTES changed TIME" or "BYTES etag ETAG" of one on the web (preprocess/web/url_source.cpp).
struct VersionParts {
  std::string bytes;  // "" if it is not said
  std::string rest;

  explicit VersionParts(const std::string& version) {
    const size_t end = version.find_first_not_of("0123456789");
    const bool has_bytes = end != std::string::npos && end > 0 && version[end] == ' ';
    bytes = has_bytes ? version.substr(0, end) : "";
    rest = has_bytes ? version.substr(end + 1) : version;
  }
  // Copies of a file, on other nodes or on mirrors, need not share it.
  bool is_time() const { return rest.starts_with("changed "); }
};

// How two records of one input go together.
enum class Fit { kSame, kOtherTime, kOtherFile };

Fit fit_of(const InputVersion& a, const InputVersion& b) {
  if (a.file_bytes >= 0 && b.file_bytes >= 0 && a.file_bytes != b.file_bytes)
    return Fit::kOtherFile;
  if (a.version.empty() || b.version.empty() || a.version == b.version) return Fit::kSame;
  const VersionParts first(a.version), second(b.version);
  const bool are_times = first.is_time() && second.is_time() && first.bytes == second.bytes;
  return are_times ? Fit::kOtherTime : Fit::kOtherFile;
}

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
  // How a shard goes together with those that were met; nothing if it is of another run.
  std::optional<Fit> find_fit(const Shard& shard) const {
    if (!has_room_for(shard)) return std::nullopt;
    std::optional<Fit> fit;
    for (const auto& [input, version] : shard.inputs) {
      if (const auto seen = seen_.find(input); seen != seen_.end())
        fit = std::max(fit.value_or(Fit::kSame), fit_of(seen->second, version));
    }
    if (fit == Fit::kSame && has_other_options(shard)) return Fit::kOtherTime;
    return fit;
  }

  // The same of all shards of another run.
  std::optional<Fit> find_fit(const ShardRun& other) const {
    ShardRun all = *this;
    Fit worst = Fit::kSame;
    for (const Shard& shard : other.shards_) {
      const std::optional<Fit> fit = find_fit(shard);
      if (!fit || !all.has_room_for(shard)) return std::nullopt;
      all.take_room(shard);
      worst = std::max(worst, *fit);
    }
    return worst;
  }

  void add(const Shard& shard) {
    take_room(shard);
    if (first_.empty()) {
      first_ = shard.part;
      options_ = shard.options;
    } else if (options_note_.empty() && has_other_options(shard)) {
      options_note_ = fmt::format("{} and {} are shards that were made with other options{}",
                                  first_, shard.part, name_of_difference(shard.options));
    }
    for (const auto& [input, version] : shard.inputs) compare(input, shard.part, version);
    shards_.push_back(shard);
  }

  void add(const ShardRun& other) {
    for (const Shard& shard : other.shards_) add(shard);
  }

  void move_notes_to(std::vector<std::string>& notes) {
    if (!options_note_.empty()) notes.push_back(std::move(options_note_));
    if (time_note_.empty()) return;
    if (const size_t num_others = inputs_of_other_times_.size() - 1; num_others > 0)
      time_note_ +=
          fmt::format(" ({} other input{} likewise)", num_others, num_others > 1 ? "s" : "");
    notes.push_back(std::move(time_note_));
  }

 private:
  bool has_room_for(const Shard& shard) const {
    if (!shard.is_known) return !shard.begun_input || !read_inputs_.contains(*shard.begun_input);
    return (count_ == 0 || count_ == shard.count) && !indexes_.contains(shard.index);
  }

  void take_room(const Shard& shard) {
    if (shard.is_known) {
      count_ = shard.count;
      indexes_.insert(shard.index);
    }
    read_inputs_.insert(shard.read_inputs.begin(), shard.read_inputs.end());
  }

  bool has_other_options(const Shard& shard) const {
    return options_.is_object() && shard.options.is_object() && options_ != shard.options;
  }

  std::string name_of_difference(const Json& options) const {
    for (const auto& [name, value] : options.items()) {
      if (options_.value(name, Json()) != value) return " (" + name + ")";
    }
    return "";
  }

  void compare(const InputKey& input, const std::string& part, const InputVersion& version) {
    InputVersion& seen = seen_[input];
    if (seen.part.empty()) {
      seen = version;
      seen.part = part;
      return;
    }
    const Fit fit = fit_of(seen, version);
    if (fit == Fit::kOtherFile) {
      const bool is_another_size =
          seen.file_bytes >= 0 && version.file_bytes >= 0 && seen.file_bytes != version.file_bytes;
      throw std::runtime_error(fmt::format(
          "{} and {} are shards of two versions of {} ({}): documents would be missing and others "
          "come twice; make the shards of one version",
          seen.part, part, input.first,
          is_another_size
              ? fmt::format("of {} bytes, then of {}", seen.file_bytes, version.file_bytes)
              : fmt::format("'{}' and '{}'", seen.version, version.version)));
    }
    if (fit != Fit::kOtherTime) return;
    inputs_of_other_times_.insert(input);
    if (!time_note_.empty()) return;
    time_note_ = fmt::format(
        "{} had one time of change when {} was made and another for {}, and the same size: unless "
        "they are copies, the result is of two versions",
        input.first, seen.part, part);
  }

  std::vector<Shard> shards_;
  std::string first_;  // the part that began the run
  Json options_;
  int64_t count_ = 0;  // 0 if it is not known
  std::set<int64_t> indexes_;
  std::set<InputKey> read_inputs_, inputs_of_other_times_;
  std::map<InputKey, InputVersion> seen_;
  std::string options_note_, time_note_;  // the first of each kind
};

// Adds a shard or a run to the run that it goes together with best, if it is no worse than `worst`;
// otherwise it begins another one.
template <typename T>
void add_to_best(std::vector<ShardRun>& runs, const T& item, Fit worst) {
  ShardRun* best = nullptr;
  std::optional<Fit> best_fit;
  for (ShardRun& run : runs) {
    const std::optional<Fit> fit = run.find_fit(item);
    if (!fit || *fit > worst || (best_fit && *best_fit <= *fit)) continue;
    best = &run;
    best_fit = fit;
  }
  if (best == nullptr) best = &runs.emplace_back();
  best->add(item);
}

}  // namespace

std::vector<std::string> compare_part_versions(const PairMerge& pairs) {
  std::vector<std::string> notes;
  std::vector<ShardRun> alike;
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
    add_to_best(alike, shard, Fit::kSame);
  }
  // Only when all are known is it clear which of those that differ must be of one run.
  std::vector<ShardRun> runs;
  for (const ShardRun& run : alike) add_to_best(runs, run, Fit::kOtherFile);
  for (ShardRun& run : runs) run.move_notes_to(notes);
  return notes;
}

}  // namespace weft
