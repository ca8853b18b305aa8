// The files of one metric, which weft-data analyze writes into a folder of the metric's name. All
// but two are those of DeepSpeed's data analyzer [data_sampling/data_analyzer.py], as pairs of .bin
// and .idx (integer_rows.h):
//
//   NAME/NAME.npy                    the value of every sample, int64, in the order of training
//   NAME/NAME_sample_to_metric       the same, a row for each
//   NAME/NAME_index_to_metric        the distinct values, ascending, one in each row
//   NAME/NAME_index_to_sample        row i: the samples with the i-th distinct value, ascending
//   NAME/NAME_index_to_sample_percentile_merged   the same in about a hundred rows
//   NAME/NAME.json                   the stamp, which is written last:
//
//   {"version": 1, "metric": NAME, "parameters": {...}, "samples": ..., "distinct_values": ...,
//    "percentiles": [0 %, 5 %, ..., 100 %], "order": {...}, "files": {"NAME.npy": XXH3, ...}}
//
// "order" says of which samples in which order the values are (blends/order_description.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

namespace weft {

// A metric and what else its values depend on, such as the checksum of a file of scores.
struct MetricRequest {
  std::string name;
  nlohmann::ordered_json parameters = nlohmann::ordered_json::object();
};

// Writes the folder of a metric; another metric of this name is replaced, its stamp first. Takes 16
// bytes of memory for each sample beside the values. Returns the stamp. Throws std::system_error.
nlohmann::ordered_json write_metric_files(const std::filesystem::path& folder,
                                          const MetricRequest& metric,
                                          std::span<const int64_t> values,
                                          const nlohmann::ordered_json& order);

// The stamp of the metric in folder/NAME; nothing if there is none. Throws std::runtime_error if it
// cannot be read as one.
std::optional<nlohmann::ordered_json> find_metric_stamp(const std::filesystem::path& folder,
                                                        const std::string& name);

// Compares the files of a metric with its stamp. Returns what is wrong with the first one that is
// not there or has another checksum, nothing if all are whole. Reads all of them. Throws
// std::system_error if one cannot be read.
std::optional<std::string> find_damaged_file(const std::filesystem::path& folder,
                                             const nlohmann::ordered_json& stamp);

// The stamp of the metric whose index is named by the prefix of its files: PREFIX_index_to_sample,
// say.
std::optional<nlohmann::ordered_json> find_stamp_of_index(const std::filesystem::path& prefix);
// Throws ChecksumMismatch if a file of the index is not the one of its stamp.
void check_index_files(const std::filesystem::path& prefix, const nlohmann::ordered_json& stamp);

}  // namespace weft
