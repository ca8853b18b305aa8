// --async-save: a checkpoint is written while the next steps run.
//
//   step N ends      begin(): the copy stream copies the state into the snapshot, in host memory;
//                    training goes on, the next update waits for the copies
//   copies done      a thread of each rank writes the rank's file
//   all have written the ranks send their parts of the manifest to the first one, whose thread
//                    writes the manifest, renames the folder, points the tracker at it and removes
//                    old checkpoints
//   that is done     the checkpoint is complete
//
// The loop learns from its control message, once a step, whether a rank is still busy, so all ranks
// go from one stage to the next together. The files are those of save_checkpoint(), byte for byte.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kernels/backend.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/checkpoint_info.h"
#include "trainer/ranks/host_group.h"
#include "trainer/step/training_state.h"

namespace weft {

struct BackgroundSaveOptions {
  std::filesystem::path dir;
  Retention retention;
};

// Returns the size of the snapshot of `tensors`.
int64_t snapshot_bytes(const std::vector<StateTensor>& tensors);

// At most one save runs at a time. All ranks call the same functions in the same order, from the
// thread that drives the backend. Where writing fails, the next call of is_busy() or finish()
// throws what save_checkpoint() would throw, and nothing is left that looks like a checkpoint.
class BackgroundSave {
 public:
  // `snapshot` is pinned memory of snapshot_bytes(). All references must outlive the object.
  BackgroundSave(Backend& backend, HostGroup& ranks, BackgroundSaveOptions options,
                 Tensor snapshot);
  // Abandons a save that still runs.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  // Begins to save `tensors`, which are written_by() this rank. No save may be running. Until the
  // event that it returns has happened, nothing may change the tensors.
  EventId begin(const CheckpointInfo& info, const std::vector<StateTensor>& tensors);

  bool is_running() const { return stage_ != Stage::kNone; }
  int64_t iteration() const { return info_.scalars.iteration; }  // of the latest save
  // Tells whether this rank has work to do before the next stage. It never waits.
  bool is_busy();
  // Goes to the next stage; no rank may be busy. Returns true if the checkpoint is now complete.
  bool advance();
  // Waits until the running save is complete.
  void finish();

 private:
  enum class Stage { kNone, kCopying, kWriting, kCommitting };
  void begin_writing();
  void start_worker(std::function<void()> work);
  void wait_for_worker();
  void rethrow_failure();

  Backend& backend_;
  HostGroup& ranks_;
  const BackgroundSaveOptions options_;
  const Tensor snapshot_;
  EventId computed_, copied_;
  Stage stage_ = Stage::kNone;
  CheckpointInfo info_;
  std::filesystem::path file_;
  std::vector<StateTensor> tensors_;  // their memory is the snapshot
  std::string pieces_;                // of this rank, once they are written
  std::set<int64_t> complete_;        // remove_old_checkpoints()

  std::thread worker_;
  std::atomic<bool> is_abandoned_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool works_ = false;          // with mutex_ held
  int64_t written_bytes_ = 0;   // with mutex_ held
  std::exception_ptr failure_;  // with mutex_ held
};

}  // namespace weft
