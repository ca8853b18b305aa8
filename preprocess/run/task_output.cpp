#include "preprocess/run/task_output.h"

#include <utility>

#include "preprocess/run/run_files.h"

namespace weft {
namespace {

TaskCounts counts_of(const Segment& segment) {
  const TokenizedChunk& result = segment.result;
  TaskCounts counts;
  PipelineTotals& totals = counts.totals;
  totals.num_file_bytes = segment.num_file_bytes;
  totals.num_bytes = segment.chunk.num_bytes();
  totals.num_lines = result.num_lines;
  totals.num_documents = result.num_documents;
  totals.num_empty_documents = result.num_empty_documents;
  totals.num_tokens = result.num_tokens;
  totals.num_replaced_surrogates = result.num_replaced_surrogates;
  totals.bad_lines = result.bad_line_counts;
  counts.bad_lines = result.bad_lines;
  for (const TokenizedChunk::Output& output : result.outputs) {
    counts.datasets.push_back(output.counts());
  }
  return counts;
}

}  // namespace

int64_t held_bytes(const TokenizedChunk& result) {
  auto size_bytes = static_cast<int64_t>(sizeof(OpenTask::Piece));
  for (const TokenizedChunk::Output& output : result.outputs) size_bytes += output.held_bytes();
  return size_bytes;
}

OpenTask::OpenTask(const Task& task, TaskProgress progress, size_t num_datasets, int64_t writer)
    : task_(task),
      counts_(progress.counts),
      given_(progress.counts.datasets),
      before_stage_(progress.stage.empty() ? progress.counts.datasets : progress.before_stage),
      earlier_stage_(progress.stage),
      writer_(writer),
      is_read_(progress.is_read),
      is_staging_(!progress.stage.empty()),
      written_(std::move(progress)) {
  counts_.datasets.resize(num_datasets);
  written_.counts.datasets.resize(num_datasets);
  given_.resize(num_datasets);
  before_stage_.resize(num_datasets);
}

SegmentPtr OpenTask::take_next() {
  const auto found = arrived_.find(next_idx_);
  if (found == arrived_.end()) return nullptr;
  ++next_idx_;
  return std::move(arrived_.extract(found).mapped());
}

const OpenTask::Piece& OpenTask::add_piece(Segment& segment) {
  auto piece = std::make_shared<Piece>();
  piece->counts = counts_of(segment);
  piece->next_offset_bytes = segment.next_offset_bytes;
  piece->result = std::move(segment.result);
  segment.result = {};
  piece->long_line_permit = std::move(segment.chunk.long_line_permit);
  counts_.add(piece->counts);
  num_held_bytes_ += held_bytes(piece->result);
  held_.push_back(std::move(piece));
  return *held_.back();
}

void OpenTask::end(const Segment& segment) {
  counts_.num_range_bytes = segment.num_range_bytes;
  counts_.totals.num_file_bytes += segment.num_file_bytes;
  is_read_ = true;
  advance_written();
}

void OpenTask::set_base(const TaskBase& base) { base_ = base; }

std::vector<StageFile> OpenTask::stage() const {
  std::vector<StageFile> stage = earlier_stage_;
  if (num_staged_bytes_ > 0) stage.push_back({writer_, num_staged_bytes_});
  return stage;
}

TaskBase OpenTask::stage_base() const {
  TaskBase base = *base_;
  for (size_t k = 0; k < before_stage_.size(); ++k) base.datasets.at(k).add(before_stage_[k]);
  return base;
}

std::vector<OpenTask::PiecePtr> OpenTask::take_writable() {
  std::vector<PiecePtr> pieces;
  if (!base_ && !is_staging_) return pieces;
  for (; !held_.empty(); held_.pop_front()) {
    PiecePtr& piece = held_.front();
    if (base_) {
      piece->place = *base_;
      for (size_t k = 0; k < given_.size(); ++k) piece->place.datasets.at(k).add(given_[k]);
    } else {
      piece->staged_at = num_staged_bytes_;
      piece->staged_bytes = RunFiles::staged_size(piece->result.outputs);
      num_staged_bytes_ += piece->staged_bytes;
      ++num_staging_;
    }
    for (size_t k = 0; k < given_.size(); ++k) given_[k].add(piece->counts.datasets[k]);
    written_or_underway_.push_back(piece);
    pieces.push_back(std::move(piece));
  }
  num_held_bytes_ = 0;
  return pieces;
}

bool OpenTask::take_unstage() {
  if (!base_ || num_staging_ > 0 || unstage_ != Unstage::kNone) return false;
  if (earlier_stage_.empty() && num_staged_bytes_ == 0) return false;
  unstage_ = Unstage::kUnderway;
  return true;
}

void OpenTask::piece_written(Piece& piece) {
  piece.is_written = true;
  piece.result = {};
  piece.long_line_permit.reset();
  if (piece.staged_at >= 0) --num_staging_;
  advance_written();
}

void OpenTask::unstaged() {
  unstage_ = Unstage::kDone;
  written_.stage.clear();
  written_.before_stage.clear();
  is_changed_ = true;
  advance_written();
}

void OpenTask::advance_written() {
  while (!written_or_underway_.empty() && written_or_underway_.front()->is_written) {
    const Piece& piece = *written_or_underway_.front();
    const bool is_staged = piece.staged_at >= 0;
    // Progress is all in stage files, or all at its place.
    if (!is_staged && !written_.stage.empty()) break;
    if (is_staged) {
      if (written_.stage.size() == earlier_stage_.size()) written_.stage.push_back({writer_, 0});
      written_.stage.back().num_bytes += piece.staged_bytes;
      written_.before_stage = before_stage_;
    }
    written_.counts.add(piece.counts);
    written_.next_offset_bytes = piece.next_offset_bytes;
    is_changed_ = true;
    written_or_underway_.pop_front();
  }
  if (!is_read_ || written_.is_read || !held_.empty() || !written_or_underway_.empty()) return;
  written_.counts = counts_;
  written_.is_read = true;
  is_changed_ = true;
}

}  // namespace weft
