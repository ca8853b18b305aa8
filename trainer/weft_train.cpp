// weft-train trains a GPT with Megatron's options. The work is in loop/.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/standard_streams.h"
#include "indexed_dataset/base/process/stop_signal.h"
#include "indexed_dataset/base/process/test_hooks.h"
#include "indexed_dataset/base/storage/bus_error.h"
#include "kernels/backend.h"
#include "trainer/command_line/argument_file.h"
#include "trainer/command_line/command_line.h"
#include "trainer/loop/live_model.h"
#include "trainer/loop/train_loop.h"
#include "trainer/plan/derived_options.h"
#include "trainer/plan/dry_run.h"
#include "trainer/plan/limits.h"
#include "trainer/plan/measure_devices.h"
#include "trainer/problems/problems.h"
#include "trainer/ranks/join_ranks.h"

namespace {

void print_error(const std::string& message) {
  std::fprintf(stderr, "error: %s\n", message.c_str());
  std::fflush(stderr);
}

std::string joined(const std::vector<std::string>& problems) {
  std::string text;
  for (const std::string& problem : problems) text += (text.empty() ? "" : "\nerror: ") + problem;
  return text;
}

// Returns whether the command line of any rank has problems. The first rank prints its own, and
// those of ranks that have others.
bool print_problems(const std::vector<std::string>& problems, weft::HostGroup& ranks) {
  const std::vector<std::string> by_rank = ranks.all_gather(joined(problems));
  bool any = false;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const std::string& text = by_rank[static_cast<size_t>(rank)];
    if (text.empty()) continue;
    any = true;
    const bool is_known = rank > 0 && text == by_rank[0];
    if (ranks.rank() == 0 && !is_known)
      print_error(rank == 0 ? text : ranks.name_of(rank) + ": " + text);
  }
  return any;
}

// A process alone plans for the ranks of --world-size, or for those that hold one model together.
int64_t planned_world_size(const weft::Config& config) {
  constexpr int64_t kMostRanks = 1 << 20;
  if (config.planned_world_size)
    return std::clamp<int64_t>(*config.planned_world_size, 1, kMostRanks);
  return std::clamp<int64_t>(config.tensor_model_parallel_size, 1, kMostRanks) *
         std::clamp<int64_t>(config.pipeline_model_parallel_size, 1, kMostRanks);
}

// The exit code and the words for the exception that is under way.
std::pair<weft::ExitCode, std::string> current_failure() {
  try {
    throw;
  } catch (const weft::NotFinite& error) {
    return {weft::ExitCode::kNotFinite, error.what()};
  } catch (const std::bad_alloc&) {
    return {weft::ExitCode::kOutOfMemory,
            "out of memory; lower --micro-batch-size, or see --dry-run for the plan"};
  } catch (const weft::DeviceOutOfMemory& error) {
    return {weft::ExitCode::kDeviceOutOfMemory, error.what()};
  } catch (const weft::DeviceLost& error) {
    return {weft::ExitCode::kDeviceLost,
            std::string("the GPU failed, start the run again on another one: ") + error.what()};
  } catch (const std::exception& error) {
    return {weft::exit_code_for(error), error.what()};
  }
}

weft::ExitCode run(weft::ParsedArguments& parsed, weft::HostGroup& ranks,
                   weft::RunStart::Clock::time_point process_start) {
  weft::Config& config = parsed.config;
  config.world_size = ranks.size();
  if (config.dry_run && ranks.size() == 1) config.world_size = planned_world_size(config);
  if (config.measure_device) {
    if (print_problems(parsed.problems, ranks)) return weft::ExitCode::kUsage;
    weft::measure_devices(config, ranks, stdout);
    return weft::ExitCode::kDone;
  }
  if (!parsed.stopped_early) {
    try {
      weft::resolve_train_epochs(config);
      if (parsed.mock_data && !config.dry_run) weft::make_mock_data(config);
    } catch (const weft::UsageError& error) {
      parsed.problems.emplace_back(error.what());
    }
  }
  weft::add_problems(parsed, weft::problems_of(config));
  if (print_problems(parsed.problems, ranks)) return weft::ExitCode::kUsage;
  if (!config.global_batch_size) {
    parsed.notes.push_back("setting global batch size to " + std::to_string(config.global_batch()));
  }
  config.fill_defaults();
  if (config.dry_run) {
    if (ranks.rank() == 0)
      weft::dry_run(config, parsed.notes, num_ranks_on_host(ranks), weft::eval_task_bytes, stdout);
    return weft::ExitCode::kDone;
  }
  weft::install_stop_signals();
  weft::Run training = weft::start_run({config, process_start, ranks, stdout}, parsed.notes);
  weft::TrainLoop loop(training);
  try {
    const weft::ExitCode code = loop.run();
    ranks.all_gather("");  // no rank takes its communicators apart while another one needs them
    return code;
  } catch (...) {
    // The others learn of it before the run is destroyed: its device may wait for them for ever.
    const auto [code, message] = current_failure();
    ranks.fail(static_cast<int>(code), message);  // returns in a process that is alone
    throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
  weft::protect_standard_streams();
  weft::explain_bus_errors();
  if (const std::string hooks = weft::active_test_hooks(); !hooks.empty())
    std::fprintf(stderr, "%s\n", hooks.c_str());
  const auto process_start = weft::RunStart::Clock::now();
  std::unique_ptr<weft::HostGroup> ranks;
  try {
    std::vector<std::string> arguments = weft::with_argument_files({argv + 1, argv + argc});
    weft::ParsedArguments parsed = weft::parse_arguments(arguments);
    if (parsed.config.use_checkpoint_args && !parsed.help) {
      const std::vector<std::string> shape = weft::arguments_of_checkpoint(parsed.config);
      arguments.insert(arguments.end(), shape.begin(), shape.end());
      parsed = weft::parse_arguments(arguments);
    }
    if (parsed.help) {
      std::fputs(parsed.help->c_str(), stdout);
      return static_cast<int>(weft::ExitCode::kDone);
    }
    weft::TransportGroupOptions options{.print_error = print_error};
    const double minutes = parsed.config.distributed_timeout_minutes;
    if (minutes > 0 && minutes < 1e6) {
      options.timeout = std::chrono::milliseconds(static_cast<int64_t>(minutes * 6e4));
    }
    ranks = weft::join_ranks(options);
    const weft::ExitCode code = run(parsed, *ranks, process_start);
    ranks->end();
    return static_cast<int>(code);
  } catch (...) {
    const auto [code, message] = current_failure();
    if (ranks) ranks->fail(static_cast<int>(code), message);  // returns in a process that is alone
    print_error(message);
    return static_cast<int>(code);
  }
}
