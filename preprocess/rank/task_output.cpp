#include "preprocess/rank/task_output.h"

#include <utility>

#include "preprocess/rank/run_files.h"

namespace weft {
namespace {

TaskCounts counts_of(const Chunk& chunk) {
  const Batch& result = chunk.batch;
  TaskCounts counts;
  PipelineTotals& totals = counts.totals;
  totals.num_file_bytes = chunk.num_file_bytes;
  totals.num_bytes = chunk.lines.num_bytes() + std::ssize(chunk.rows.bytes);
  totals.num_lines = result.num_lines;
  totals.num_documents = result.num_documents;
  totals.num_empty_documents = result.num_empty_documents;
  totals.num_tokens = result.num_tokens;
  totals.num_replaced_surrogates = result.num_replaced_surrogates;
  totals.num_dropped_bytes = result.num_dropped_bytes;
  totals.left_out = result.left_out;
  totals.bad_lines = result.bad_line_counts;
  counts.bad_lines = result.bad_lines;
  for (const Batch::Output& output : result.outputs) {
    counts.datasets.push_back(output.counts());
  }
  counts.written = chunk.written;
  return counts;
}

}  // namespace

int64_t TaskOutput::HeldBatch::held_bytes() const {
  auto size_bytes = static_cast<int64_t>(sizeof *this);
  for (const Batch::Output& output : tokens.outputs) size_bytes += output.held_bytes();
  return size_bytes;
}

TaskOutput::TaskOutput(const Task& task, TaskProgress progress, size_t num_datasets,
                       int64_t process_id)
    : task_(task),
      counts_(progress.counts),
      spill_(progress, num_datasets, process_id),
      is_read_(progress.is_read),
      is_spilling_(spill_.has_earlier()),
      written_(std::move(progress)) {
  for (TaskCounts* counts : {&counts_, &written_.counts}) {
    counts->datasets.resize(num_datasets);
    counts->written.resize(num_datasets);
  }
}

ChunkPtr TaskOutput::take_next() {
  const auto found = arrived_.find(next_idx_);
  if (found == arrived_.end()) return nullptr;
  ++next_idx_;
  return std::move(arrived_.extract(found).mapped());
}

const TaskOutput::HeldBatch& TaskOutput::add(Chunk& chunk) {
  auto batch = std::make_shared<HeldBatch>();
  batch->counts = counts_of(chunk);
  batch->next_offset_bytes = chunk.next_offset_bytes;
  batch->tokens = std::move(chunk.batch);
  chunk.batch = {};
  batch->offset.datasets = counts_.datasets;
  counts_.add(batch->counts);
  num_held_bytes_ += batch->held_bytes();
  held_.push_back(std::move(batch));
  return *held_.back();
}

void TaskOutput::end(const Chunk& chunk) {
  counts_.num_range_bytes = chunk.num_range_bytes;
  counts_.totals.num_file_bytes += chunk.num_file_bytes;
  is_read_ = true;
  advance_written();
}

void TaskOutput::set_offset(const TaskOffset& offset) { offset_ = offset; }

TaskOffset TaskOutput::spill_offset() const {
  TaskOffset offset = *offset_;
  const std::vector<DatasetCounts>& before = spill_.before();
  for (size_t k = 0; k < before.size(); ++k) offset.datasets.at(k).add(before[k]);
  return offset;
}

std::vector<TaskOutput::BatchPtr> TaskOutput::take_writable() {
  std::vector<BatchPtr> batches;
  if (!offset_ && !is_spilling_) return batches;
  for (; !held_.empty(); held_.pop_front()) {
    BatchPtr& batch = held_.front();
    if (offset_) {
      for (size_t k = 0; k < offset_->datasets.size(); ++k) {
        batch->offset.datasets.at(k).add(offset_->datasets[k]);
      }
      batch->offset.num_input_bytes = offset_->num_input_bytes;
    } else {
      batch->spilled_bytes = RunFiles::spill_size(batch->tokens.outputs);
      batch->spilled_at = spill_.add(batch->spilled_bytes);
    }
    written_or_underway_.push_back(batch);
    batches.push_back(std::move(batch));
  }
  num_held_bytes_ = 0;
  return batches;
}

bool TaskOutput::take_unspill() { return offset_ && spill_.take_copy(); }

void TaskOutput::batch_written(HeldBatch& batch) {
  batch.is_written = true;
  batch.tokens = {};
  if (batch.spilled_at >= 0) spill_.written();
  advance_written();
}

void TaskOutput::unspilled() {
  copied_spill_ = spill();
  written_.spill.clear();
  written_.before_spill.clear();
  is_changed_ = true;
  advance_written();
}

void TaskOutput::advance_written() {
  while (!written_or_underway_.empty() && written_or_underway_.front()->is_written) {
    const HeldBatch& batch = *written_or_underway_.front();
    const bool is_spilled = batch.spilled_at >= 0;
    // Progress is all in spill files, or all in the output.
    if (!is_spilled && !written_.spill.empty()) break;
    if (is_spilled) spill_.add_to(written_, batch.spilled_bytes);
    written_.counts.add(batch.counts);
    written_.next_offset_bytes = batch.next_offset_bytes;
    is_changed_ = true;
    written_or_underway_.pop_front();
  }
  if (!is_read_ || written_.is_read || !held_.empty() || !written_or_underway_.empty()) return;
  written_.counts = counts_;
  written_.is_read = true;
  is_changed_ = true;
}

}  // namespace weft
