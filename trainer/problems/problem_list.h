// The problems of a configuration, collected so that all of them are reported together.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/config/config.h"

namespace weft {

constexpr int64_t kMostRanks = 1 << 20;  // in each direction of parallelism

class ProblemList {
 public:
  template <typename... Args>
  void add_if(bool wrong, fmt::format_string<Args...> format, Args&&... args) {
    if (wrong) list.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  void required(int64_t value, const char* flag) {
    add_if(value <= 0, "{} is required and must be positive (got {})", flag, value);
  }
  void positive(const std::optional<int64_t>& value, const char* flag) {
    add_if(value && *value <= 0, "{} must be positive (got {})", flag, value.value_or(0));
  }
  void at_most(int64_t value, int64_t limit, const char* flag) {
    add_if(value > limit, "{} {} is beyond the limit of {}", flag, value, limit);
  }
  std::vector<std::string> list;
};

// Sizes that make no model (shape_problems.cpp).
void check_shape(const Config& config, ProblemList& problems);
// Sizes that do not divide over the ranks (shape_problems.cpp).
void check_shares(const Config& config, ProblemList& problems);
// Layers and micro-batches that pipeline stages cannot share out (pipeline_problems.cpp).
void check_pipeline(const Config& config, bool has_shape, ProblemList& problems);
// Flags and sizes that fp8 products cannot have (fp8_problems.cpp).
void check_fp8(const Config& config, bool has_shape, ProblemList& problems);
// Adds a warning for each flag of fp8 scales that has no effect (fp8_problems.cpp).
void warn_of_fp8_flags(const Config& config, std::vector<std::string>& warnings);
// A text of --step-batch-size-schedule that is none is reported and cleared (batch_problems.cpp).
void check_step_schedule(Config& config, ProblemList& problems);
// Batch sizes and the run's length (batch_problems.cpp).
void check_duration(const Config& config, ProblemList& problems);
// Sequences that grow, and what they exclude (curriculum_problems.cpp). A curriculum that is none
// is reported and cleared.
void check_curriculum(Config& config, ProblemList& problems);
// The same for samples by difficulty (curriculum_problems.cpp).
void check_metric_curriculum(Config& config, ProblemList& problems);
// The optimizer and the learning rate's schedule (optimizer_problems.cpp).
void check_optimizer(const Config& config, ProblemList& problems);
// Datasets, their shares, and how samples are loaded (data_problems.cpp).
void check_data(const Config& config, ProblemList& problems);
// Adds a warning for a split that leaves the test without samples (data_problems.cpp).
void warn_of_split(const Config& config, std::vector<std::string>& warnings);
// Flags of recomputation that mean nothing together (shape_problems.cpp).
void check_recompute(const Config& config, ProblemList& problems);
// Sizes that no product of could be counted in 64 bits (shape_problems.cpp).
void check_limits(const Config& config, ProblemList& problems);

}  // namespace weft
