#include "indexed_dataset/run_record/checkpoint_run.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/text_file.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/run_record/manifest_checksum.h"
#include "indexed_dataset/run_record/read_segments.h"
#include "indexed_dataset/run_record/segment_list.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Returns the folder of the checkpoint that is meant.
fs::path folder_of(const fs::path& load) {
  if (fs::exists(load / "manifest.json")) return fs::absolute(load).lexically_normal();
  const fs::path tracker = load / "latest_checkpointed_iteration.txt";
  if (!fs::exists(tracker)) {
    throw std::runtime_error(
        load.string() +
        ": there is no checkpoint of weft-train: neither latest_checkpointed_iteration.txt nor "
        "manifest.json; give the folder that --save had, or an iter_ folder in it");
  }
  const std::string text = read_text_file(tracker);
  int64_t iteration = 0;
  try {
    iteration = std::stoll(text);
  } catch (const std::exception&) {
    throw std::runtime_error(tracker.string() + ": no iteration, but \"" + text.substr(0, 40) +
                             "\"");
  }
  return fs::absolute(load / fmt::format("iter_{:07}", iteration)).lexically_normal();
}

// Returns the folder with the run manifest and the copies of files of --unsee, if it is there.
std::optional<fs::path> find_run_folder(const fs::path& checkpoint, const Json& arguments) {
  const fs::path beside =
      checkpoint.has_filename() ? checkpoint.parent_path() : checkpoint.parent_path().parent_path();
  if (fs::exists(beside / "run_manifest.json")) return beside;
  const auto run_dir = arguments.find("run_dir");
  if (run_dir == arguments.end() || !run_dir->is_string()) return std::nullopt;
  const fs::path folder = run_dir->get<std::string>();
  if (folder.empty() || !fs::exists(folder / "run_manifest.json")) return std::nullopt;
  return folder;
}

std::string shortened(const Json& value) {
  constexpr size_t kMostBytes = 200;
  const std::string text = value.dump();
  return text.size() <= kMostBytes ? text : std::string(beginning_of(text, kMostBytes)) + " ...";
}

// Returns the first place where two values differ, as "/train/0/weights/3", and what stands there:
// a whole blend of many datasets would tell nobody where.
struct JsonDifference {
  std::string place, a, b;
};
JsonDifference first_difference(const Json& a, const Json& b) {
  const Json steps = Json::diff(a, b);
  const std::string place = steps.empty() ? "" : steps[0].at("path").get<std::string>();
  const auto at_place = [&](const Json& json) {
    const Json::json_pointer pointer(place);
    return json.contains(pointer) ? shortened(json.at(pointer)) : std::string("nothing");
  };
  return {place, at_place(a), at_place(b)};
}

// Both tell what decides samples: the arguments of sample_arguments.h, and what was made of them.
void check_agreement(const Json& checkpoint, const Json& segment) {
  const auto compare = [](const std::string& what, const Json& a, const Json& b) {
    if (a == b) return;
    const JsonDifference first = first_difference(a, b);
    throw std::runtime_error(fmt::format(
        "it contradicts its list of segments: {}{} is {} in the checkpoint and {} in the list; the "
        "two are not of one run",
        what, first.place.empty() ? "" : " at " + first.place, first.a, first.b));
  };
  const Json &saved = checkpoint.at("arguments"), &told = segment.at("arguments");
  const auto compare_argument = [&](const auto& field, const auto&) {
    compare(field.name(), saved.at(field.name()), told.at(field.name()));
  };
  const SampleArguments any;
  visit_sample_fields(compare_argument, any);
  const Json& data = checkpoint.at("data");
  compare("the list of datasets", data.at("datasets"), segment.at("datasets"));
  compare("the blend of its datasets", data.at("blends"), segment.at("blends"));
}

}  // namespace

RunTimeline read_run_of_checkpoint(const fs::path& load) {
  const fs::path folder = folder_of(load), path = folder / "manifest.json";
  try {
    Json manifest = parse_json<Json>(read_file(path));
    take_checksum(manifest, path);
    const Json& checkpoint = manifest.at("info");
    const int64_t iteration = json_integer_at(checkpoint, "iteration");
    if (iteration < 1)
      throw std::runtime_error("no iteration stands behind it: its weights were imported");
    if (!checkpoint.contains("run_segments"))
      throw std::runtime_error(
          "it does not list the parts of its run; name the run's folder: --run in place of --load");
    const std::vector<Json> list = segments_of_list(checkpoint.at("run_segments"));
    if (list.empty()) throw std::runtime_error("it lists no segment of its run");
    const fs::path run_folder =
        find_run_folder(folder, checkpoint.at("arguments")).value_or(folder);
    RunTimeline run(segments_from(list, run_folder), iteration);
    check_agreement(checkpoint, list.back());
    const int64_t consumed = run.of_iteration(iteration).last;
    const int64_t saved = json_integer_at(checkpoint, "consumed_train_samples");
    if (consumed == saved) return run;
    throw std::runtime_error(fmt::format(
        "it was saved after {} samples, and by the segments of its run iteration {} ends with {}: "
        "the two are not of one run",
        saved, iteration, consumed));
  } catch (const ChecksumMismatch&) {
    throw;  // it names its file
  } catch (const std::system_error&) {
    throw;  // so does this
  } catch (const Json::exception& error) {
    throw std::runtime_error(path.string() + ": not the manifest of a checkpoint: " + error.what());
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path.string() + ": " + error.what());
  }
}

}  // namespace weft
