// weft-train trains a GPT with Megatron's options. The work is in train_loop.h.
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "indexed_dataset/process/standard_streams.h"
#include "indexed_dataset/storage/bus_error.h"
#include "trainer/config/config.h"
#include "trainer/signals.h"
#include "trainer/train_loop.h"

namespace {

weft::ExitCode run(const std::vector<std::string>& arguments,
                   weft::TrainLoop::Clock::time_point process_start) {
  weft::ParsedArguments parsed = weft::parse_arguments(arguments);
  if (parsed.help) {
    std::fputs(parsed.help->c_str(), stdout);
    return weft::ExitCode::kDone;
  }
  weft::Config& config = parsed.config;
  for (const std::string& problem : config.problems()) parsed.problems.push_back(problem);
  if (!parsed.problems.empty()) {
    for (const std::string& problem : parsed.problems)
      std::fprintf(stderr, "error: %s\n", problem.c_str());
    return weft::ExitCode::kUsage;
  }
  if (!config.global_batch_size) {
    parsed.notes.push_back("setting global batch size to " + std::to_string(config.global_batch()));
  }
  config.fill_defaults();
  if (config.dry_run) {
    weft::dry_run(config, parsed.notes, stdout);
    return weft::ExitCode::kDone;
  }
  weft::catch_stop_signals();
  return weft::TrainLoop(config, parsed.notes, process_start, stdout).run();
}

}  // namespace

int main(int argc, char** argv) {
  weft::protect_standard_streams();
  weft::explain_bus_errors();
  const auto process_start = weft::TrainLoop::Clock::now();
  try {
    return static_cast<int>(run({argv + 1, argv + argc}, process_start));
  } catch (const weft::NotFinite& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(weft::ExitCode::kNotFinite);
  } catch (const std::bad_alloc&) {
    std::fputs("error: out of memory; lower --micro-batch-size, or see --dry-run for the plan\n",
               stderr);
    return static_cast<int>(weft::ExitCode::kOutOfMemory);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(weft::exit_code_for(error));
  }
}
