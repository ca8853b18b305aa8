#include "indexed_dataset/order/curriculum/metric_files.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/npy_file.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "indexed_dataset/order/curriculum/integer_rows.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::array kPairs = {"_sample_to_metric", "_index_to_metric", "_index_to_sample",
                               "_index_to_sample_percentile_merged"};
constexpr int kPercentileStep = 5;

fs::path stamp_path(const fs::path& folder, const std::string& name) {
  return folder / name / (name + ".json");
}

// The names of a metric's files, which its stamp has checksums of.
std::vector<std::string> file_names(const std::string& metric) {
  std::vector<std::string> names = {metric + ".npy"};
  for (const char* pair : kPairs) {
    for (const char* suffix : {".bin", ".idx"}) names.push_back(metric + pair + suffix);
  }
  return names;
}

// The samples by ascending value; those of one value by their numbers.
std::vector<int64_t> sorted_samples(std::span<const int64_t> values) {
  std::vector<int64_t> samples(values.size());
  std::iota(samples.begin(), samples.end(), 0);
  std::stable_sort(samples.begin(), samples.end(), [&](int64_t a, int64_t b) {
    return values[static_cast<size_t>(a)] < values[static_cast<size_t>(b)];
  });
  return samples;
}

Json percentiles_of(std::span<const int64_t> values, const std::vector<int64_t>& samples) {
  Json percentiles = Json::array();
  for (int percent = 0; percent <= 100 && !samples.empty(); percent += kPercentileStep) {
    const size_t last = samples.size() - 1;
    const size_t at =
        last / 100 * static_cast<size_t>(percent) + last % 100 * static_cast<size_t>(percent) / 100;
    percentiles.push_back(values[static_cast<size_t>(samples[at])]);
  }
  return percentiles;
}

// The distinct values, and where the samples of each end.
struct ValueRows {
  std::vector<int64_t> distinct, ends;
};
ValueRows rows_of(std::span<const int64_t> values, const std::vector<int64_t>& samples) {
  ValueRows rows;
  for (size_t i = 0; i < samples.size(); ++i) {
    const int64_t value = values[static_cast<size_t>(samples[i])];
    if (rows.distinct.empty() || rows.distinct.back() != value) {
      rows.distinct.push_back(value);
      rows.ends.push_back(0);
    }
    rows.ends.back() = static_cast<int64_t>(i + 1);
  }
  return rows;
}

// DeepSpeed joins every so many rows, so that there are about a hundred.
std::vector<int64_t> merged_ends(const std::vector<int64_t>& ends) {
  const size_t step = std::max<size_t>(1, ends.size() / 100);
  std::vector<int64_t> merged;
  for (size_t first = 0; first < ends.size(); first += step)
    merged.push_back(ends[std::min(first + step, ends.size()) - 1]);
  return merged;
}

std::optional<Json> find_stamp(const fs::path& path) {
  if (!fs::exists(path)) return std::nullopt;
  try {
    Json stamp = parse_json<Json>(read_file(path));
    if (stamp.at("version") != 1) throw std::runtime_error("its version is not 1");
    stamp.at("files").get<std::map<std::string, std::string>>();
    stamp.at("metric").get<std::string>();
    json_integer_at(stamp, "samples");
    if (!stamp.at("order").is_object()) throw std::runtime_error("it has no order");
    return stamp;
  } catch (const std::system_error&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error(path.string() + ": not the stamp of a metric of weft-data analyze: " +
                             error.what() + "; remove it and analyze again");
  }
}

}  // namespace

Json write_metric_files(const fs::path& folder, const MetricRequest& metric,
                        std::span<const int64_t> values, const Json& order) {
  const std::string& name = metric.name;
  const fs::path stamp_file = stamp_path(folder, name), prefix = folder / name / name;
  fs::create_directories(folder / name);
  remove_file(stamp_file);
  write_npy(prefix.string() + ".npy", values);
  write_integer_rows(prefix.string() + kPairs[0], values);
  const std::vector<int64_t> samples = sorted_samples(values);
  const ValueRows rows = rows_of(values, samples);
  write_integer_rows(prefix.string() + kPairs[1], rows.distinct);
  write_integer_rows(prefix.string() + kPairs[2], samples, rows.ends);
  write_integer_rows(prefix.string() + kPairs[3], samples, merged_ends(rows.ends));
  Json files = Json::object();
  for (const std::string& file : file_names(name)) files[file] = xxh3_of_file(folder / name / file);
  Json stamp = {{"version", 1},
                {"metric", name},
                {"parameters", metric.parameters},
                {"samples", values.size()},
                {"distinct_values", rows.distinct.size()},
                {"percentiles", percentiles_of(values, samples)},
                {"order", order},
                {"files", std::move(files)}};
  // The part has one name, so that the next run replaces what a killed one has left of it.
  const fs::path part = stamp_file.string() + ".part";
  write_synced_file(part, stamp.dump(2) + "\n");
  commit_rename(part, stamp_file);
  return stamp;
}

std::optional<Json> find_metric_stamp(const fs::path& folder, const std::string& name) {
  return find_stamp(stamp_path(folder, name));
}

std::optional<std::string> find_damaged_file(const fs::path& folder, const Json& stamp) {
  const std::string name = stamp["metric"];
  for (const std::string& file : file_names(name)) {
    const fs::path path = folder / name / file;
    const auto stored = stamp["files"].find(file);
    if (stored == stamp["files"].end()) return path.string() + " is not in the metric's stamp";
    if (!fs::exists(path)) return path.string() + " is not there";
    if (*stored != xxh3_of_file(path))
      return path.string() + " has another checksum than when it was written";
  }
  return std::nullopt;
}

std::optional<Json> find_stamp_of_index(const fs::path& prefix) {
  const std::string text = prefix.string();
  for (const char* pair : kPairs) {
    if (text.ends_with(pair))
      return find_stamp(text.substr(0, text.size() - std::string_view(pair).size()) + ".json");
  }
  return std::nullopt;
}

void check_index_files(const fs::path& prefix, const Json& stamp) {
  for (const char* suffix : {".bin", ".idx"}) {
    const fs::path path = prefix.string() + suffix;
    const auto stored = stamp["files"].find(path.filename().string());
    if (stored != stamp["files"].end() && *stored == xxh3_of_file(path)) continue;
    throw ChecksumMismatch(path.string() +
                           ": it is not the file that weft-data analyze wrote (its checksum is "
                           "another one): run weft-data analyze again");
  }
}

}  // namespace weft
