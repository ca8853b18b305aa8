// Training: from a checked configuration to the last checkpoint.
#pragma once

#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/lock_file.h"
#include "trainer/checkpoint/background_save.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/data/data_loader.h"
#include "trainer/identity/data_identity.h"
#include "trainer/log/run_log.h"
#include "trainer/log/run_manifest.h"
#include "trainer/parallel/process_groups.h"
#include "trainer/plan/train_setup.h"
#include "trainer/profile/step_profiler.h"
#include "trainer/ranks/agreement.h"
#include "trainer/resume/resume.h"

namespace weft {

// A loss or gradient norm was NaN or infinite (exit code 11), more often in a row than
// --skip-bad-steps tolerates. No checkpoint was written since.
struct NotFinite : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class StopReason { kNone, kSignal, kDuration, kInterval };

// The actions of all ranks after an iteration.
struct Control {
  bool check_weights = false, evaluate = false, save = false;
  StopReason stop = StopReason::kNone;
  int stop_signal = 0;  // the signal that a rank has received, if any
};

// What a run does with the logs of earlier ones.
struct LogPlan {
  std::string run_id = {};
  std::optional<LogEnd> end = {};  // what this run has logged after it is dropped
  bool writes_manifest = true;     // in the run's folder, if it has one
};

class TrainLoop {
 public:
  using Clock = std::chrono::steady_clock;

  // Builds model and optimizer, loads the checkpoint, opens the dataset, and reports all of it to
  // `out` as Megatron does: the first rank prints text, the last one iterations. `config` has no
  // problems() and its defaults are filled in; `notes` are printed. `ranks` outlives the loop.
  // Exceptions are those of exit_code.h.
  TrainLoop(const Config& config, const std::vector<std::string>& notes,
            Clock::time_point process_start, HostGroup& ranks, std::FILE* out);
  TrainLoop(const TrainLoop&) = delete;
  TrainLoop& operator=(const TrainLoop&) = delete;

  // Trains to the end or to a stop. Returns kDone, or kStoppedOnRequest after a signal; with --save
  // the state is saved then. Throws NotFinite, and what reading data and saving throw.
  ExitCode run();

 private:
  ExitCode train_and_finish();
  ExitCode train();
  void record_step(const GlobalBatch& batch, bool has_updated, double batch_wait_ms);
  void read_results(size_t max_in_flight);
  void tolerate_or_stop(const StepRecord& record, const StepResult& result);
  int64_t reserved_bytes() const;
  Control decide_control();
  bool is_stop_requested();
  ExitCode stop(const Control& control);
  ExitCode finish();

  std::optional<double> mean_loss(DataLoader& loader, bool full);
  double sum_over_data_ranks(double own) const;
  int64_t samples_per_validation() const;
  bool evaluate_validation(bool at_end);
  bool evaluate_test();
  bool evaluation_was_cut_short() const;
  std::optional<int64_t> find_due_evaluation() const;
  std::optional<int64_t> last_of_equal_evaluations() const;
  void save();
  void check_weights();
  std::vector<StateTensor> saved_tensors() const;
  void advance_background_save();
  void finish_background_save();
  void try_to_finish_background_save() noexcept;
  void check_data_unchanged();

  void start_profiler(ProfilingBackend& backend);
  bool ends_profile() const { return profiler_ && profiler_->is_last(iteration()); }
  void report_profile();

  bool is_first_rank() const { return ranks_.rank() == 0; }
  void print(const std::string& text) const;  // before there is a log
  Facts facts() const;
  std::optional<CheckpointChoice> choose_checkpoint_of_all_ranks();
  void lock_folders();
  void open_data();
  LoaderPlan loader_plan() const;
  void plan_checkpoint_memory();
  void load_or_initialize(const std::optional<CheckpointChoice>& checkpoint);
  void load(int64_t saved_iteration, const Resume& resume);
  int64_t validation_samples_to_come() const;
  void begin_validation_again_if_needed();
  void check_evaluations_suffice() const;
  void start_loaders();
  void check_samples_suffice() const;
  LogPlan plan_logs();
  LogPlan plan_logs_of_training(const std::string& folder);
  LogPlan plan_logs_of_evaluation(const std::string& folder) const;
  void warn_of_lost_steps(const std::string& folder, const LogEnd& end);
  void write_manifest(const std::string& run_id);
  DataLoaderOptions loader_options(int64_t first_sample) const;
  DataIdentity data_identity() const {
    return {data_watch_.identities(), vocabulary_, unseen_ ? unseen_->sha256() : "", blends_};
  }
  static double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }
  int64_t iteration() const { return trainer_->scalar_state().iteration; }
  int64_t consumed_samples() const { return trainer_->scalar_state().consumed_samples; }
  RunPosition position() const { return position_of(trainer_->scalar_state()); }

  const Config& config_;
  const Clock::time_point process_start_;
  HostGroup& ranks_;
  std::FILE* out_;
  BatchSchedule schedule_;
  std::deque<LockFile> locks_;  // one for each folder that this run writes to
  RunVocabulary vocabulary_;
  const SplitBlends blends_;  // read once: the files that name datasets may be changed meanwhile
  DataWatch data_watch_;      // of their prefixes
  std::shared_ptr<const UnseenDocuments> unseen_;  // with --unsee
  std::unique_ptr<Backend> backend_;
  ProcessGroups groups_;
  std::unique_ptr<StepProfiler> profiler_;  // with --profile-steps
  std::optional<DeviceCeilings> ceilings_;  // likewise, if they were measured
  DatasetTargetSizes sizes_;
  std::optional<CyclicOptions> cyclic_;  // with --dataloader-type cyclic (resume.h)
  // The segments of the loaded checkpoint, and from write_manifest() on this one, too. On the first
  // rank.
  std::string run_segments_json_;
  TrainingDatasets datasets_;
  std::unique_ptr<Trainer> trainer_;
  Tensor staging_memory_, snapshot_memory_;  // of the trainer's plan
  std::unique_ptr<CheckpointStaging> staging_;
  std::unique_ptr<BackgroundSave> background_save_;  // with --async-save
  std::unique_ptr<RunLog> log_;
  std::unique_ptr<DataLoader> train_loader_;
  std::vector<std::unique_ptr<DataLoader>> valid_loaders_, test_loaders_;  // one for each group

  LrSchedule lr_;
  int64_t consumed_valid_samples_ = 0;
  bool makes_up_evaluation_ = false;  // of the checkpoint's iteration, which a signal cut short
  std::set<int64_t> complete_checkpoints_;  // remove_old_checkpoints()
  int64_t saved_iteration_ = -1;     // of the latest save that has begun, or of the loaded one
  int64_t lr_consumed_samples_ = 0;  // consumed samples when lr_ advanced last
  int64_t first_iteration_ = 1;      // the first one of this process
  size_t results_in_flight_ = 0;     // results that stay unread while the next step is enqueued
  std::deque<StepRecord> unread_;    // steps whose results are unread, oldest first
};

}  // namespace weft
