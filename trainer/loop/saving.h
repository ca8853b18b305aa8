// Checkpoints of a run, in the step or in the background, and the checks before them.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "trainer/checkpoint/background_save.h"
#include "trainer/loop/run.h"

namespace weft {

class Saving {
 public:
  explicit Saving(Run& run);

  // Saves the state; with --async-save it begins to.
  void save();
  // Compares the weights of ranks that hold the same ones. It comes before saving, so that no
  // checkpoint holds weights that have drifted apart.
  void check_weights();
  // Warns of datasets that were changed, or throws: a run whose data is changed under it trains on
  // a mixture, and a checkpoint of it would be tied to bytes that it was not trained on.
  void check_data_unchanged();
  // Returns the iteration of the latest save that has begun, or of the loaded one in --save; -1
  // where there is none.
  int64_t saved_iteration() const { return saved_iteration_; }

  // A save in the background, if one runs: whether this rank has work to do before its next stage;
  // going there, when no rank has; and waiting for its end.
  bool is_busy() { return is_running() && background_->is_busy(); }
  void advance();
  void finish();
  void try_to_finish() noexcept;

 private:
  bool is_running() const { return background_ && background_->is_running(); }
  std::vector<StateTensor> saved_tensors() const;
  void report_complete();

  Run& run_;
  std::unique_ptr<BackgroundSave> background_;  // with --async-save
  std::set<int64_t> complete_;                  // remove_old_checkpoints()
  int64_t saved_iteration_;
};

}  // namespace weft
