#include "preprocess/rank/rank_output.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "indexed_dataset/base/process/crash_point.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// The memory of a batch that grew for a long line is not kept.
constexpr size_t kMaxSpareBytes = 2 << 20;

}  // namespace

void RankOutput::start() {
  sync_thread_.start([this] {
    while (auto durable = to_sync_.pop()) {
      work_and_tell(
          inbox_,
          [this] {
            has_sync_failed_ = true;
            files_.sync();
            has_sync_failed_ = false;
          },
          [this, durable = std::move(*durable)] { on_synced(durable); });
    }
  });
}

void RankOutput::end() {
  to_sync_.close();
  sync_thread_.join();
}

void RankOutput::open(const LedgerReply::Assigned& assigned) {
  tasks_.try_emplace(assigned.task.number, assigned.task, assigned.progress, num_datasets_,
                     files_.process_id());
}

const TaskCounts& RankOutput::add(TaskOutput& task, Chunk& chunk) {
  const TaskOutput::HeldBatch& batch = task.add(chunk);
  held_bytes_ += batch.held_bytes();
  if (!spare_.empty()) {
    chunk.batch = std::move(spare_.back());
    spare_.pop_back();
  }
  return batch.counts;
}

void RankOutput::set_offset(int64_t number, const TaskOffset& offset) {
  TaskOutput& task = at(number);
  task.set_offset(offset);
  write(task);
}

void RankOutput::start_write(std::function<void()> work, std::function<void()> then) {
  ++num_underway_;
  pool_.run(std::move(work), [this, then = std::move(then)] {
    --num_underway_;
    then();
  });
}

// Each batch is given out once, so what is written makes no other batch writable: behind a write
// come only the copy of what was spilled, and the progress.
void RankOutput::write(TaskOutput& task) {
  const int64_t number = task.task().number;
  const int32_t input_idx = task.task().input_idx;
  if (task.has_offset() || task.is_spilling()) held_bytes_ -= task.num_held_bytes();
  for (const TaskOutput::BatchPtr& batch : task.take_writable()) {
    start_write(
        [this, number, input_idx, batch] {
          if (batch->spilled_at >= 0) {
            files_.spill(number, batch->spilled_at, batch->tokens.outputs);
          } else {
            files_.write(batch->offset, input_idx, batch->tokens.outputs);
          }
        },
        [this, number, batch] {
          reuse(batch->tokens);
          at(number).batch_written(*batch);
          crash_point("batch_written");
          copy_spill(at(number));
        });
  }
  copy_spill(task);
}

// Begins to copy what was spilled of a task when all of it is on disk and the offset is known.
void RankOutput::copy_spill(TaskOutput& task) {
  if (task.take_unspill()) {
    const int64_t number = task.task().number;
    start_write(
        [this, number, input_idx = task.task().input_idx, spill = task.spill(),
         offset = task.spill_offset()] { files_.unspill(number, spill, offset, input_idx); },
        [this, number] {
          files_.close_spill(number);
          at(number).unspilled();
          record_progress(at(number));
        });
  }
  record_progress(task);
}

void RankOutput::record_progress(TaskOutput& task) {
  if (task.take_changed()) dirty_.insert(task.task().number);
}

// The last tasks first: the offsets of those before them will be known sooner.
void RankOutput::spill_above(int64_t max_bytes) {
  for (auto at = tasks_.rbegin(); at != tasks_.rend() && held_bytes_ > max_bytes; ++at) {
    TaskOutput& task = at->second;
    if (task.has_offset() || task.num_held_bytes() == 0) continue;
    task.begin_spilling();
    write(task);
  }
}

// To grow a batch's memory anew for every chunk takes copies and page faults.
void RankOutput::reuse(Batch& tokens) {
  size_t num_bytes = 0;
  for (Batch::Output& output : tokens.outputs) {
    output.clear();
    num_bytes += 2 * output.tokens_16.capacity() + 4 * output.tokens_32.capacity();
  }
  if (std::ssize(spare_) < 2 * pool_.num_workers() && num_bytes <= kMaxSpareBytes) {
    spare_.push_back(std::move(tokens));
  }
}

void RankOutput::sync_sometimes(std::chrono::milliseconds interval, bool at_once) {
  if (dirty_.empty() || is_syncing_) return;
  if (!at_once && Clock::now() - last_sync_ < interval) return;
  std::vector<LedgerRequest::Durable> durable;
  for (const int64_t task : dirty_) {
    durable.push_back({task, at(task).written(), at(task).take_copied_spill()});
  }
  dirty_.clear();
  is_syncing_ = true;
  to_sync_.push(std::move(durable));
}

void RankOutput::on_synced(const std::vector<LedgerRequest::Durable>& all) {
  is_syncing_ = false;
  last_sync_ = Clock::now();
  for (const LedgerRequest::Durable& durable : all) {
    durable_.push_back(durable);
    if (durable.progress.is_done()) {
      tasks_.erase(durable.task);
    } else if (durable.progress.is_read) {
      files_.close_spill(durable.task);  // tasks may wait by the thousand
    }
  }
}

std::vector<LedgerRequest::Durable> RankOutput::sync_for_the_last_time() {
  // A sync that fails is told once: what it could not write is lost, and the next sync succeeds.
  if (has_sync_failed_) return {};
  std::vector<LedgerRequest::Durable> durable;
  try {
    files_.sync();
    for (auto& [number, task] : tasks_) {
      durable.push_back({number, task.written(), task.take_copied_spill()});
    }
  } catch (const std::system_error&) {
    // The disk may be why the rank ends: what was told before is what is safe.
  }
  return durable;
}

}  // namespace weft
