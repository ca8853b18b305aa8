// RUN_DIR/metrics.jsonl as readers see it: the steps of a run, one JSON object on each line
// (weft-train writes it: trainer/log/metrics_jsonl.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace weft {

struct LoggedStep {
  int64_t iteration = 0;         // counted from 1
  int64_t consumed_samples = 0;  // after the step
  int64_t global_batch_size = 0;
  // NaN where the file has null: a number that was not finite.
  double lm_loss = 0, grad_norm = 0;

  int64_t first_sample() const { return consumed_samples - global_batch_size; }
};

// Returns the steps in the file, in order. Lines of evaluations and a torn last line are left out,
// so a run that goes on may be read. Throws std::system_error if there is no such file,
// std::runtime_error that names the line for one that is no step of a run, or comes out of order.
std::vector<LoggedStep> read_logged_steps(const std::filesystem::path& run_folder);

// Returns the last step whose iteration is at most `iteration`; nothing if there is none, or no
// file. It parses a few dozen lines of the file, however long that is. Throws std::runtime_error as
// above for a line that it parses.
std::optional<LoggedStep> find_logged_step(const std::filesystem::path& run_folder,
                                           int64_t iteration);

}  // namespace weft
