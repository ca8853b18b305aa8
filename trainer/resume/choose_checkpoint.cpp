#include "trainer/resume/choose_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/checkpoint/manifest.h"

namespace weft {

namespace fs = std::filesystem;

namespace {

std::string names_of_folders(const std::vector<int64_t>& iterations) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, iterations.size()); ++i)
    text += (i > 0 ? ", " : "") + checkpoint_folder("", iterations[i]).string();
  return iterations.size() > kShown ? text + ", ..." : text;
}

}  // namespace

std::optional<CheckpointChoice> choose_checkpoint(const fs::path& dir) {
  const std::optional<int64_t> tracked = latest_iteration(dir);
  const std::vector<int64_t> stored = stored_iterations(dir);
  if (!tracked && stored.empty()) return std::nullopt;
  std::string problem = "there is no " + std::string(kTrackerFile);
  if (tracked) {
    problem = problem_of_checkpoint(dir, *tracked);
    if (problem.empty()) return CheckpointChoice{*tracked};
    problem = fmt::format("iteration {}, which the tracker names, cannot be loaded: {}", *tracked,
                          problem);
  }
  for (const int64_t iteration : stored) {
    if (tracked && iteration >= *tracked) continue;
    const std::string reason = problem_of_checkpoint(dir, iteration);
    if (reason.empty()) {
      return CheckpointChoice{
          iteration,
          {fmt::format("{}: {}; the newest whole checkpoint, of iteration {}, is taken",
                       dir.string(), problem, iteration)}};
    }
    problem += "; " + reason;
  }
  const bool is_megatrons = std::ranges::any_of(stored, [&](int64_t iteration) {
    return holds_model_of_megatron(checkpoint_folder(dir, iteration));
  });
  if (is_megatrons)
    problem += fmt::format("; there is a checkpoint of Megatron, {}", kWayFromMegatron);
  throw std::runtime_error(
      fmt::format("{} holds {}, but no checkpoint that can be loaded: {}; choose one with "
                  "--ckpt-step, or give a --load folder without any to start anew",
                  dir.string(), stored.empty() ? "a tracker" : names_of_folders(stored), problem));
}

}  // namespace weft
