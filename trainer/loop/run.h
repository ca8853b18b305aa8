// A run of weft-train when its first step begins. start_run() builds its parts one after the other,
// each of them whole: what it reads, the device, the model, the data, the log.
#pragma once

#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/base/storage/lock_file.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/data/data_loader.h"
#include "trainer/evaluate/task_list.h"
#include "trainer/generate/prompts.h"
#include "trainer/identity/data_identity.h"
#include "trainer/log/run_log.h"
#include "trainer/parallel/process_groups.h"
#include "trainer/plan/train_setup.h"
#include "trainer/profile/step_profiler.h"
#include "trainer/resume/resume.h"

namespace weft {

struct RunStart {
  using Clock = std::chrono::steady_clock;

  const Config& config;  // has no problems(), and its defaults are filled in
  Clock::time_point process_start;
  HostGroup& ranks;
  std::FILE* out;

  bool is_first_rank() const { return ranks.rank() == 0; }
  // Prints on the first rank, before there is a log.
  void print(const std::string& text) const;
};

inline double ms_between(RunStart::Clock::time_point start, RunStart::Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - start).count();
}

struct RunInputs {
  RunVocabulary vocabulary;
  SplitBlends blends;    // read once: the files that name datasets may be changed meanwhile
  DataWatch data_watch;  // of their prefixes
  std::shared_ptr<const UnseenDocuments> unseen;  // with --unsee

  DataIdentity identity() const {
    return {data_watch.identities(), vocabulary, unseen ? unseen->sha256() : "", blends};
  }
};

// What the model is to do between steps (live_model.h), in its own tokens.
struct RunTexts {
  std::shared_ptr<const Vocabulary> vocabulary;  // null where there is neither
  std::optional<TaskList> tasks;                 // --eval-tasks
  std::vector<Prompt> prompts;                   // --sample-prompt
};

struct RunDevice {
  std::unique_ptr<Backend> backend;
  ProfilingBackend* profiled = nullptr;  // the backend, with --profile-steps
  ProcessGroups groups = {};
  // Results that stay unread while the next step is enqueued. A CPU executes in place, so there is
  // nothing to overlap, and a result that waits is a log line that is late.
  size_t results_in_flight = 0;
};

// The trainer with its first or its loaded numbers, and what checkpoints hold beside them.
struct RunModel {
  std::unique_ptr<Trainer> trainer;
  RunState state;  // as of the start in its scalars, which the trainer counts on
  CheckpointStaging staging;
  Tensor snapshot_memory;        // with --async-save
  int64_t saved_iteration = -1;  // of the loaded checkpoint, if that lies in --save

  int64_t iteration() const { return trainer->scalar_state().iteration; }
  int64_t consumed_samples() const { return trainer->scalar_state().consumed_samples; }
  RunPosition position() const { return position_of(trainer->scalar_state()); }
};

struct RunData {
  DatasetTargetSizes sizes;
  TrainingDatasets datasets;
  std::unique_ptr<DataLoader> train_loader;
  std::vector<std::unique_ptr<DataLoader>> valid_loaders, test_loaders;  // one for each group
  bool makes_up_evaluation = false;  // of the checkpoint's iteration, which a signal cut short
};

struct RunProfile {
  std::unique_ptr<StepProfiler> profiler;  // with --profile-steps
  std::optional<DeviceCeilings> ceilings;  // likewise, if they were measured
};

struct Run {
  RunStart start;
  RunInputs inputs;
  RunTexts texts;
  BatchSchedule schedule;
  std::deque<LockFile> locks;         // one for each folder that this run writes to
  std::unique_ptr<RunDevice> device;  // the trainer and the loaders refer to it
  RunModel model;
  RunProfile profile;
  std::unique_ptr<RunData> data;  // its loaders refer to its datasets
  std::unique_ptr<RunLog> log = {};
};

// Builds a run, loads its checkpoint, and reports all of it to start.out as Megatron does: the
// first rank prints text, the last one iterations. `notes` are printed. What `start` refers to
// outlives the run. Exceptions are those of exit_code.h.
Run start_run(const RunStart& start, const std::vector<std::string>& notes);

// --- its parts, in this order ---

RunDevice open_device(const RunStart& start, const DeviceChoice& choice, const RunInputs& inputs);
// Builds model and optimizer, and loads the checkpoint or sets the first weights. The schedule goes
// on from there.
RunModel build_model(const RunStart& start, const RunInputs& inputs,
                     const std::optional<CheckpointChoice>& checkpoint, RunDevice& device,
                     BatchSchedule& schedule);
// Reads the ceilings now, so that a file of another kind ends the run before it has begun.
RunProfile start_profile(const RunStart& start, int64_t iteration, int64_t num_iterations,
                         const RunDevice& device);
// Opens the datasets and starts the loaders.
std::unique_ptr<RunData> open_data(const RunStart& start, const RunInputs& inputs,
                                   const BatchSchedule& schedule, RunDevice& device,
                                   RunModel& model);
// `run` has all parts but this one. Its manifest is written, too.
std::unique_ptr<RunLog> open_log(Run& run);

// Prints the profile of the steps that are recorded, and writes it into the run's folder.
void report_profile(Run& run);

}  // namespace weft
