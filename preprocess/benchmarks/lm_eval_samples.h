// The samples that lm-evaluation-harness writes with --log_samples: any of its tasks, with the
// examples before the question that its run had.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace weft {

// Returns the task of a file samples_TASK_TIME.jsonl; nothing for another name.
std::optional<std::string> task_of_samples(const std::string& file_name);

// Returns the example of a sample as `weft-model evaluate --tasks` reads it. Throws as
// Benchmark::example_of.
nlohmann::ordered_json example_of_sample(const nlohmann::json& sample);

}  // namespace weft
