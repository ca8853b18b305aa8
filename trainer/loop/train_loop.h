// Training: from the first step of a run to its last checkpoint.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "trainer/log/heartbeat.h"
#include "trainer/loop/evaluation.h"
#include "trainer/loop/live_model.h"
#include "trainer/loop/run.h"
#include "trainer/loop/saving.h"

namespace weft {

// A loss or gradient norm was NaN or infinite (exit code 11), more often in a row than
// --skip-bad-steps tolerates. No checkpoint was written since.
struct NotFinite : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class StopReason { kNone, kSignal, kDuration, kInterval };

// The actions of all ranks after an iteration.
struct Control {
  bool check_weights = false, evaluate = false, infer = false, save = false;
  StopReason stop = StopReason::kNone;
  int stop_signal = 0;  // the signal that a rank has received, if any
};

class TrainLoop {
 public:
  explicit TrainLoop(Run& run);  // `run` outlives the loop

  // Trains to the end or to a stop. Returns kDone, or kStoppedOnRequest after a signal; with --save
  // the state is saved then. Throws NotFinite, and what reading data and saving throw.
  ExitCode run();

 private:
  ExitCode train_and_finish();
  ExitCode train();
  StepOptions options_of_step(const GlobalBatch& batch);
  std::optional<double> count_loss_tokens(const GlobalBatch& batch);
  bool is_untrained(int64_t iteration) const;
  void beat(int64_t iteration);
  void pass_over(const GlobalBatch& batch);
  void record_step(const GlobalBatch& batch, bool has_updated, double batch_wait_ms);
  void read_results(size_t max_in_flight);
  void tolerate_or_stop(const StepRecord& record, const StepResult& result);
  Control decide_control();
  ExitCode stop(const Control& control);
  ExitCode finish();
  int64_t iteration() const { return run_.model.iteration(); }

  Run& run_;
  const Config& config_;
  HostGroup& ranks_;
  Trainer& trainer_;
  RunLog& log_;
  Evaluation evaluation_;
  std::optional<LiveModel> live_model_;  // with --eval-tasks or --sample-prompt
  Saving saving_;
  const int64_t first_iteration_;  // of this process
  int64_t lr_consumed_samples_;    // consumed samples when the learning rate advanced last
  const std::vector<StepRange> untrained_steps_;
  std::string end_ = "trained to the end";  // how the loop has ended, for the next start
  std::optional<Heartbeat> heartbeat_;      // of the first rank, while it trains
  std::deque<StepRecord> unread_;           // steps whose results are unread, oldest first
};

}  // namespace weft
