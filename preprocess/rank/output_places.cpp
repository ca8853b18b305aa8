#include "preprocess/rank/output_places.h"

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

void OutputPlaces::start() {
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

void OutputPlaces::end() {
  to_sync_.close();
  sync_thread_.join();
}

void OutputPlaces::open(const LedgerReply::Assigned& assigned) {
  tasks_.try_emplace(assigned.task.number, assigned.task, assigned.progress, num_datasets_,
                     files_.writer());
}

const TaskCounts& OutputPlaces::add(TaskOutput& task, Chunk& chunk) {
  const TaskOutput::PlacedBatch& batch = task.add(chunk);
  held_bytes_ += batch.held_bytes();
  if (!spare_.empty()) {
    chunk.batch = std::move(spare_.back());
    spare_.pop_back();
  }
  return batch.counts;
}

void OutputPlaces::set_place(int64_t number, const TaskOffset& place) {
  TaskOutput& task = at(number);
  task.set_offset(place);
  write(task);
}

void OutputPlaces::write(TaskOutput& task) {
  const int64_t number = task.task().number;
  const int32_t input_idx = task.task().input_idx;
  if (task.has_offset() || task.is_spilling()) held_bytes_ -= task.num_held_bytes();
  for (const TaskOutput::BatchPtr& batch : task.take_writable()) {
    ++num_underway_;
    pool_.run(
        [this, number, input_idx, batch] {
          if (batch->spilled_at >= 0) {
            files_.spill(number, batch->spilled_at, batch->tokens.outputs);
          } else {
            files_.write(batch->place, input_idx, batch->tokens.outputs);
          }
        },
        [this, number, batch] {
          --num_underway_;
          reuse(batch->tokens);
          at(number).batch_written(*batch);
          crash_point("batch_written");
          write(at(number));
        });
  }
  if (task.take_unspill()) {
    ++num_underway_;
    pool_.run([this, number, input_idx, spill = task.spill(),
               place = task.spill_offset()] { files_.unspill(number, spill, place, input_idx); },
              [this, number] {
                --num_underway_;
                files_.close_spill(number);
                at(number).unspilled();
                write(at(number));
              });
  }
  if (task.take_changed()) dirty_.insert(number);
}

// The last tasks first: those before them will have their places sooner.
void OutputPlaces::spill_above(int64_t max_bytes) {
  for (auto at = tasks_.rbegin(); at != tasks_.rend() && held_bytes_ > max_bytes; ++at) {
    TaskOutput& task = at->second;
    if (task.has_offset() || task.num_held_bytes() == 0) continue;
    task.begin_spilling();
    write(task);
  }
}

// To grow a batch's memory anew for every chunk takes copies and page faults.
void OutputPlaces::reuse(Batch& tokens) {
  size_t num_bytes = 0;
  for (Batch::Output& output : tokens.outputs) {
    output.clear();
    num_bytes += 2 * output.tokens_16.capacity() + 4 * output.tokens_32.capacity();
  }
  if (std::ssize(spare_) < 2 * pool_.num_workers() && num_bytes <= kMaxSpareBytes) {
    spare_.push_back(std::move(tokens));
  }
}

void OutputPlaces::sync_sometimes(std::chrono::milliseconds interval, bool at_once) {
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

void OutputPlaces::on_synced(const std::vector<LedgerRequest::Durable>& all) {
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

std::vector<LedgerRequest::Durable> OutputPlaces::sync_for_the_last_time() {
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
