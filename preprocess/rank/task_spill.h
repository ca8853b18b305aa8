// The spilled part of a task in the hands of a rank: documents whose offset in the output was not
// known when they were tokenized. Bookkeeping only.
//
//   batch:  has an offset in this process's spill file -> on disk
//   file:   all batches on disk, and the task's offset known -> copied to the output -> removed
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "preprocess/ledger/ledger_link.h"

namespace weft {

class TaskSpill {
 public:
  // Goes on behind `progress`; `process_id` is that of RunFiles.
  TaskSpill(const TaskProgress& progress, size_t num_datasets, int64_t process_id)
      : earlier_(progress.spill),
        before_(progress.spill.empty() ? progress.counts.datasets : progress.before_spill),
        process_id_(process_id) {
    before_.resize(num_datasets);
  }

  // The task has documents in the spill files of earlier owners.
  bool has_earlier() const { return !earlier_.empty(); }
  // Gives a batch of this size its offset in this process's file; to be followed by written().
  int64_t add(int64_t num_bytes) {
    ++num_underway_;
    return std::exchange(num_bytes_, num_bytes_ + num_bytes);
  }
  void written() { --num_underway_; }

  // True once, when everything that was spilled is on disk: it can be copied to the output.
  bool take_copy() {
    if (num_underway_ > 0 || is_copied_ || (earlier_.empty() && num_bytes_ == 0)) return false;
    is_copied_ = true;
    return true;
  }
  // All spill files, by earlier owners of the task and by this one, in the order of the task.
  std::vector<SpillFile> files() const {
    std::vector<SpillFile> files = earlier_;
    if (num_bytes_ > 0) files.push_back({process_id_, num_bytes_});
    return files;
  }
  // The documents of the task that are in the output; the spilled ones follow them.
  const std::vector<DatasetCounts>& before() const { return before_; }

  // Counts a spilled batch as progress: the files in `progress` then hold it, too.
  void add_to(TaskProgress& progress, int64_t num_bytes) const {
    if (progress.spill.size() == earlier_.size()) progress.spill.push_back({process_id_, 0});
    progress.spill.back().num_bytes += num_bytes;
    progress.before_spill = before_;
  }

 private:
  const std::vector<SpillFile> earlier_;
  std::vector<DatasetCounts> before_;
  const int64_t process_id_;
  int64_t num_bytes_ = 0, num_underway_ = 0;  // of this process's file
  bool is_copied_ = false;
};

}  // namespace weft
