#include "indexed_dataset/run_folder/run_metrics.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "indexed_dataset/process/parse_json.h"
#include "indexed_dataset/storage/file_io.h"

namespace weft {
namespace {

using Json = nlohmann::json;

double number_or_nan(const Json& json) { return json.is_null() ? NAN : json.get<double>(); }

}  // namespace

std::vector<LoggedStep> read_logged_steps(const std::filesystem::path& run_folder) {
  const std::filesystem::path path = run_folder / "metrics.jsonl";
  const std::string text = read_regular_file(path);
  std::vector<LoggedStep> steps;
  int64_t line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // the run is writing it
    ++line_number;
    try {
      const Json json = parse_json<Json>(text.substr(begin, end - begin));
      begin = end + 1;
      if (!json.contains("lm_loss")) continue;  // of an evaluation
      steps.push_back({.iteration = json.at("iteration").get<int64_t>(),
                       .consumed_samples = json.at("consumed_samples").get<int64_t>(),
                       .global_batch_size = json.at("global_batch_size").get<int64_t>(),
                       .lm_loss = number_or_nan(json.at("lm_loss")),
                       .grad_norm = number_or_nan(json.at("grad_norm"))});
    } catch (const std::exception& error) {
      throw std::runtime_error(path.string() + ", line " + std::to_string(line_number) +
                               ": not a step of a training run: " + error.what());
    }
    if (steps.size() > 1 && steps.back().iteration <= steps[steps.size() - 2].iteration) {
      throw std::runtime_error(path.string() + ", line " + std::to_string(line_number) +
                               ": iteration " + std::to_string(steps.back().iteration) +
                               " comes behind iteration " +
                               std::to_string(steps[steps.size() - 2].iteration) +
                               "; the file holds lines of several runs");
    }
  }
  return steps;
}

}  // namespace weft
