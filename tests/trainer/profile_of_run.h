// Reads and checks the profile that a run of weft-train has written.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "indexed_dataset/base/storage/file_io.h"

namespace weft {

// Returns the profiles of all ranks; `steps` are those of the option, as "6_9".
inline nlohmann::json profiles_of_run(const std::filesystem::path& folder,
                                      const std::string& steps) {
  return nlohmann::json::parse(read_file(folder / ("profile_" + steps + ".json"))).at("ranks");
}

// The time of a step on the compute stream is in exactly one line each.
inline void expect_whole_step(const nlohmann::json& rank) {
  double sum = 0;
  for (const nlohmann::json& line : rank.at("operations"))
    sum += line.at("exposed_ms").get<double>();
  const double step_ms = rank.at("step_ms");
  EXPECT_GT(step_ms, 0);
  EXPECT_NEAR(sum, step_ms, 1e-3 * step_ms);
}

// Returns the first line whose name begins so; an empty object where there is none.
inline nlohmann::json line_of(const nlohmann::json& rank, const std::string& beginning) {
  for (const nlohmann::json& one : rank.at("operations")) {
    if (one.at("operation").get<std::string>().starts_with(beginning)) return one;
  }
  return nlohmann::json::object();
}

}  // namespace weft
