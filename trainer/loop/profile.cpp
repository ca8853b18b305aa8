// The profile of a run with --profile-steps: where the time of its steps goes.
#include <fmt/format.h>

#include <filesystem>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "trainer/loop/run.h"

namespace weft {

RunProfile start_profile(const RunStart& start, int64_t iteration, int64_t num_iterations,
                         const RunDevice& device) {
  if (!device.profiled) return {};
  const Config& config = start.config;
  const StepRange steps = *config.profiled_steps();
  if (steps.last > num_iterations) {
    throw UsageError(fmt::format("--profile-steps {}: this run ends with iteration {}",
                                 config.profile_steps, num_iterations));
  }
  // A job that requeues itself has the same command line when its profile is done.
  if (steps.first <= iteration) {
    start.print(
        fmt::format("WARNING: --profile-steps {} begins before iteration {}, where this run goes "
                    "on: nothing is profiled\n",
                    config.profile_steps, iteration + 1));
    return {};
  }
  RunProfile profile;
  const ProfilingBackend& backend = *device.profiled;
  const std::string algorithms = algorithm_cache(config);
  if (!algorithms.empty()) {
    profile.ceilings =
        find_ceilings(ceilings_file(algorithms), ceilings_id(backend), backend.description());
  }
  profile.profiler = std::make_unique<StepProfiler>(*device.profiled, device.groups, steps);
  return profile;
}

// The first rank prints and writes for all.
void report_profile(Run& run) {
  RunLog& log = *run.log;
  const RunLog::Pause pause(log);
  HostGroup& group = run.start.ranks;
  const RankProfile profile = run.profile.profiler->finish(group.rank(), run.profile.ceilings);
  const std::vector<std::string> ranks = group.gather(to_json_text(profile));
  if (!run.start.is_first_rank()) return;
  std::string text = to_text(profile);
  if (ranks.size() > 1) text += to_text_of_ranks(ranks);
  log.print(text);
  const std::string folder = run.start.config.run_folder();
  if (!folder.empty()) {
    const std::filesystem::path path =
        std::filesystem::path(folder) /
        fmt::format("profile_{}_{}.json", profile.first_step, profile.last_step);
    write_file_atomically(path, to_json_document(ranks));
    log.print(fmt::format("  all lines of all ranks: {}\n", path.string()));
  }
}

}  // namespace weft
