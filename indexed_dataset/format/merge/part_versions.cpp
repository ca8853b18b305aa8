#include "indexed_dataset/format/merge/part_versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "indexed_dataset/format/sidecars/shard.h"
#include "indexed_dataset/format/sidecars/source_map.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// Numbers texts. Thousands of shards name the same thousands of inputs and versions.
class Texts {
 public:
  int32_t number_of(const std::string& text) {
    const auto [found, is_new] = numbers_.try_emplace(text, static_cast<int32_t>(texts_.size()));
    if (is_new) texts_.push_back(&found->first);
    return found->second;
  }
  const std::string& operator[](int32_t number) const {
    return *texts_[static_cast<size_t>(number)];
  }

 private:
  std::unordered_map<std::string, int32_t> numbers_;
  std::vector<const std::string*> texts_;
};

// A part's sources or manifest record this of an input. Texts stand by their numbers.
struct InputVersion {
  int32_t input = 0;        // its name, and how many of that name came before
  int32_t part = 0;         // the first that records it
  int32_t version = 0;      // of the manifest; that of "" if it is not known
  int64_t file_bytes = -1;  // -1 if it is not known
};

// The version of an input in a manifest: "changed TIME" of a local file
// (preprocess/ledger/work_plan.cpp), "BYTES changed TIME" or "BYTES etag ETAG" of one on the web
// (preprocess/web/url_source.cpp).
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

// Says how two records of one input go together.
enum class Fit { kSame, kOtherTime, kOtherFile };

Fit fit_of(const InputVersion& a, const InputVersion& b, const Texts& texts) {
  if (a.file_bytes >= 0 && b.file_bytes >= 0 && a.file_bytes != b.file_bytes)
    return Fit::kOtherFile;
  if (a.version == b.version || texts[a.version].empty() || texts[b.version].empty())
    return Fit::kSame;
  const VersionParts first(texts[a.version]), second(texts[b.version]);
  const bool are_times = first.is_time() && second.is_time() && first.bytes == second.bytes;
  return are_times ? Fit::kOtherTime : Fit::kOtherFile;
}

std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Numbers the inputs of one list.
class InputNumbers {
 public:
  explicit InputNumbers(Texts& texts) : texts_(texts) {}
  // Names hold no byte 0: what follows it tells inputs of one name apart.
  int32_t next(const std::string& name) {
    const int num_before = num_seen_[name]++;
    return texts_.number_of(
        num_before == 0 ? name : name + std::string(1, '\0') + std::to_string(num_before));
  }

 private:
  Texts& texts_;
  std::unordered_map<std::string, int> num_seen_;
};

// One part of the merge, as far as it is a shard.
struct Shard {
  Shard(const DatasetReader& reader, Texts& texts) : part(reader.prefix().string()) {
    const InputVersion unknown{.part = texts.number_of(part), .version = texts.number_of("")};
    std::map<int32_t, InputVersion> by_input;
    const auto find = [&](int32_t input) -> InputVersion& {
      InputVersion& found = by_input.try_emplace(input, unknown).first->second;
      found.input = input;
      return found;
    };
    if (const auto manifest = read_dataset_manifest(reader.prefix())) {
      program_version = text_of(manifest->json, "version");
      is_known = parse_shard(manifest->option("shard"), index, count);
      options = manifest->json.value("run_options", Json());
      if (options.is_object()) options.erase("--shard");
      const Json list = manifest->json.value("inputs", Json());
      InputNumbers numbers(texts);
      for (const Json& input : list.is_array() ? list : Json::array()) {
        if (!input.is_object()) continue;
        find(numbers.next(text_of(input, "path"))).version =
            texts.number_of(text_of(input, "version"));
      }
    }
    const auto sources = open_source_map_of(reader);
    InputNumbers numbers(texts);
    for (size_t i = 0; sources && i < sources->inputs().size(); ++i) {
      const int32_t number = numbers.next(sources->inputs()[i]);
      const std::optional<InputPart>& input = sources->parts()[i];
      if (!input) continue;
      is_shard = true;
      find(number).file_bytes = input->file_bytes;
      if (input->is_empty()) continue;
      if (read_inputs.empty() && input->file_begin == 0) begun_input = number;
      read_inputs.push_back(number);
    }
    for (const auto& [input, version] : by_input) inputs.push_back(version);
    is_shard = is_shard || (is_known && count > 1);
  }

  std::string part, program_version;
  bool is_shard = false;  // it, or shards that an earlier merge has put together
  bool is_known = false;  // its index and their count
  int64_t index = 0, count = 0;
  Json options;
  std::vector<InputVersion> inputs;    // by their numbers
  std::vector<int32_t> read_inputs;    // of which it has some bytes
  std::optional<int32_t> begun_input;  // the first of them, if its first line is the input's
};

// The shards of one run, as far as they have been met: what they say together, not the shards.
class ShardRun {
 public:
  explicit ShardRun(const Texts& texts) : texts_(&texts) {}

  // Returns how a shard, or all of another run, go together with those that were met; nothing if
  // they are of another run, or fit worse than `worst`.
  std::optional<Fit> find_fit(const Shard& shard, Fit worst) const {
    return has_room_for(shard) ? find_fit(shard.inputs, shard.options, worst) : std::nullopt;
  }
  std::optional<Fit> find_fit(const ShardRun& other, Fit worst) const {
    return has_room_for(other) ? find_fit(other.seen_, other.options_, worst) : std::nullopt;
  }

  void add(const Shard& shard) {
    if (shard.is_known) {
      count_ = shard.count;
      indexes_.insert(shard.index);
    } else if (shard.begun_input) {
      begun_inputs_.push_back(*shard.begun_input);
    }
    read_inputs_.insert(shard.read_inputs.begin(), shard.read_inputs.end());
    add(shard.part, shard.options, shard.inputs);
  }

  void add(const ShardRun& other) {
    if (other.count_ > 0) count_ = other.count_;
    indexes_.insert(other.indexes_.begin(), other.indexes_.end());
    begun_inputs_.insert(begun_inputs_.end(), other.begun_inputs_.begin(),
                         other.begun_inputs_.end());
    read_inputs_.insert(other.read_inputs_.begin(), other.read_inputs_.end());
    add(other.first_, other.options_, other.seen_);
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

  bool has_room_for(const ShardRun& other) const {
    if (count_ > 0 && other.count_ > 0 && count_ != other.count_) return false;
    return std::none_of(other.indexes_.begin(), other.indexes_.end(),
                        [this](int64_t index) { return indexes_.contains(index); }) &&
           std::none_of(other.begun_inputs_.begin(), other.begun_inputs_.end(),
                        [this](int32_t input) { return read_inputs_.contains(input); });
  }

  std::optional<Fit> find_fit(const std::vector<InputVersion>& inputs, const Json& options,
                              Fit worst) const {
    std::optional<Fit> fit;
    auto seen = seen_.begin();
    for (const InputVersion& version : inputs) {
      while (seen != seen_.end() && seen->input < version.input) ++seen;
      if (seen == seen_.end()) break;
      if (seen->input != version.input) continue;
      fit = std::max(fit.value_or(Fit::kSame), fit_of(*seen, version, *texts_));
      if (*fit > worst) return std::nullopt;
    }
    if (fit == Fit::kSame && has_other_options(options)) fit = Fit::kOtherTime;
    return fit <= worst ? fit : std::nullopt;
  }

  void add(const std::string& part, const Json& options, const std::vector<InputVersion>& inputs) {
    if (first_.empty()) {
      first_ = part;
      options_ = options;
    } else if (options_note_.empty() && has_other_options(options)) {
      options_note_ = fmt::format("{} and {} are shards that were made with other options{}",
                                  first_, part, name_of_difference(options));
    }
    const size_t num_seen = seen_.size();
    auto seen = seen_.begin();
    std::vector<InputVersion> new_ones;
    for (const InputVersion& version : inputs) {
      while (seen != seen_.end() && seen->input < version.input) ++seen;
      if (seen == seen_.end() || seen->input != version.input) {
        new_ones.push_back(version);
      } else {
        compare(*seen, version);
      }
    }
    seen_.insert(seen_.end(), new_ones.begin(), new_ones.end());
    std::inplace_merge(
        seen_.begin(), seen_.begin() + static_cast<std::ptrdiff_t>(num_seen), seen_.end(),
        [](const InputVersion& a, const InputVersion& b) { return a.input < b.input; });
  }

  bool has_other_options(const Json& options) const {
    return options_.is_object() && options.is_object() && options_ != options;
  }

  std::string name_of_difference(const Json& options) const {
    for (const auto& [name, value] : options.items()) {
      if (options_.value(name, Json()) != value) return " (" + name + ")";
    }
    return "";
  }

  void compare(InputVersion& seen, const InputVersion& version) {
    const Texts& texts = *texts_;
    const std::string name = texts[seen.input].c_str();  // to its byte 0
    const Fit fit = fit_of(seen, version, texts);
    if (fit == Fit::kOtherFile) {
      const bool is_another_size =
          seen.file_bytes >= 0 && version.file_bytes >= 0 && seen.file_bytes != version.file_bytes;
      throw std::runtime_error(fmt::format(
          "{} and {} are shards of two versions of {} ({}): documents would be missing and others "
          "come twice; make the shards of one version",
          texts[seen.part], texts[version.part], name,
          is_another_size
              ? fmt::format("of {} bytes, then of {}", seen.file_bytes, version.file_bytes)
              : fmt::format("'{}' and '{}'", texts[seen.version], texts[version.version])));
    }
    if (fit == Fit::kSame) {  // a part that knows more of the input than those before tells it
      if (texts[seen.version].empty()) {
        seen.version = version.version;
        seen.part = version.part;
      }
      seen.file_bytes = std::max(seen.file_bytes, version.file_bytes);
      return;
    }
    inputs_of_other_times_.insert(seen.input);
    if (!time_note_.empty()) return;
    time_note_ = fmt::format(
        "{} had one time of change when {} was made and another for {}, and the same size: unless "
        "they are copies, the result is of two versions",
        name, texts[seen.part], texts[version.part]);
  }

  const Texts* texts_;
  std::string first_;  // the part that began the run
  Json options_;
  int64_t count_ = 0;  // 0 if it is not known
  std::set<int64_t> indexes_;
  std::vector<int32_t> begun_inputs_;  // of shards whose index is not known
  std::set<int32_t> read_inputs_, inputs_of_other_times_;
  std::vector<InputVersion> seen_;        // by their numbers
  std::string options_note_, time_note_;  // the first of each kind
};

// Adds a shard or a run to the run that it goes together with best, if it is no worse than `worst`;
// otherwise it begins another one.
template <typename T>
void add_to_best(std::vector<ShardRun>& runs, const T& item, Fit worst, const Texts& texts) {
  ShardRun* best = nullptr;
  std::optional<Fit> best_fit;
  for (ShardRun& run : runs) {
    const std::optional<Fit> fit = run.find_fit(item, worst);
    if (!fit || (best_fit && *best_fit <= *fit)) continue;
    best = &run;
    best_fit = fit;
    if (fit == Fit::kSame) break;
  }
  if (best == nullptr) best = &runs.emplace_back(texts);
  best->add(item);
}

}  // namespace

std::vector<std::string> compare_part_versions(const PairMerge& pairs) {
  std::vector<std::string> notes;
  Texts texts;
  std::vector<ShardRun> alike;
  std::pair<std::string, std::string> first_version;  // the program's, and the part that names it
  bool has_noted_version = false;
  for (const PairMerge::Part& part : pairs.parts()) {
    const Shard shard(part.reader, texts);
    if (!shard.program_version.empty()) {
      if (first_version.first.empty()) first_version = {shard.program_version, shard.part};
      if (shard.program_version != first_version.first && !has_noted_version) {
        has_noted_version = true;
        notes.push_back(fmt::format("{} was made by weft-data {}, {} by {}", first_version.second,
                                    first_version.first, shard.part, shard.program_version));
      }
    }
    if (!shard.is_shard) continue;
    add_to_best(alike, shard, Fit::kSame, texts);
  }
  // Only when all are known is it clear which of those that differ must be of one run.
  std::vector<ShardRun> runs;
  for (const ShardRun& run : alike) add_to_best(runs, run, Fit::kOtherFile, texts);
  for (ShardRun& run : runs) run.move_notes_to(notes);
  return notes;
}

}  // namespace weft
