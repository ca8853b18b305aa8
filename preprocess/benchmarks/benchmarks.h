// Known benchmarks: the file that the Hugging Face hub has of each, and how lm-evaluation-harness
// makes prompts of its rows. The prompts are those of its version 0.4.13, to the byte, without
// examples before them.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace weft {

struct Benchmark {
  const char* name;     // that of the task in lm-evaluation-harness
  const char* address;  // on the hub, at a commit
  // The checksum of that file; "" where the hub alone has it, and gives it with the file.
  const char* sha256;
  // Returns the example of a row as `weft-model evaluate --tasks` reads it. Throws
  // std::runtime_error or nlohmann::json::exception for a row that is none.
  nlohmann::ordered_json (*example_of)(const nlohmann::json& row);
};

std::span<const Benchmark> benchmarks();
const Benchmark* find_benchmark(const std::string& name);  // null if there is none
std::string benchmark_names();                             // with commas, for messages

}  // namespace weft
