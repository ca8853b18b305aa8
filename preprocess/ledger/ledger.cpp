#include "preprocess/ledger/ledger.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {

void TaskCounts::add(const TaskCounts& next) {
  for (BadLine bad_line : next.bad_lines) {
    if (std::ssize(bad_lines) >= kNumShownBadLines) break;
    bad_line.line_number += totals.num_lines;
    bad_lines.push_back(std::move(bad_line));
  }
  totals.add(next.totals);
  if (datasets.size() < next.datasets.size()) datasets.resize(next.datasets.size());
  for (size_t k = 0; k < next.datasets.size(); ++k) datasets[k].add(next.datasets[k]);
  if (written.size() < next.written.size()) written.resize(next.written.size());
  for (size_t k = 0; k < next.written.size(); ++k) written[k].append(next.written[k]);
  num_range_bytes += next.num_range_bytes;
}

int64_t num_bytes_of(const std::vector<SpillFile>& spill) {
  int64_t num_bytes = 0;
  for (const SpillFile& file : spill) num_bytes += file.num_bytes;
  return num_bytes;
}

RunFailure failure_of(const std::exception& error) {
  return {static_cast<int>(exit_code_for(error)), error.what(), {}};
}

RunFailure stopped_on_request() {
  return {static_cast<int>(ExitCode::kStoppedOnRequest), "stopped on request", {}};
}

Ledger::Ledger(std::vector<Task> tasks, std::vector<std::string> input_names, size_t num_datasets,
               Limits limits)
    : tasks_(std::move(tasks)),
      input_names_(std::move(input_names)),
      limits_(std::move(limits)),
      states_(tasks_.size()),
      num_unread_(std::ssize(tasks_)),
      first_failed_task_(std::ssize(tasks_)) {
  TaskOffset& begin = offsets_.emplace_back();
  begin.datasets.resize(num_datasets);
  if (!tasks_.empty() && !is_compressed(0)) begin.num_input_bytes = tasks_.front().begin;
  if (limits_.written_files) last_passes_.emplace(*limits_.written_files);
}

const Ledger::State& Ledger::at(int64_t number) const {
  if (number < 0 || number >= std::ssize(states_)) {
    throw std::logic_error("ledger: there is no task " + std::to_string(number));
  }
  return states_[static_cast<size_t>(number)];
}

Ledger::State& Ledger::at(int64_t number) {
  return const_cast<State&>(std::as_const(*this).at(number));
}

void Ledger::restore(int64_t number, TaskProgress progress) {
  State& state = at(number);
  seen_.add(progress.counts.totals);
  state.is_read = progress.is_read;
  state.counts = progress.counts;
  if (progress.is_done()) {
    state.kind = State::Kind::kDone;
    ++num_done_;
    --num_unread_;
  }
  state.progress = std::move(progress);
  count_spill(number);
  extend_offsets();
}

LedgerReply Ledger::answer(int rank, const LedgerRequest& request) {
  LedgerReply reply;
  seen_.add(request.newly_seen);
  for (const auto& durable : request.durable) {
    if (!holds(rank, durable.task)) continue;
    if (durable.progress.is_read) end_reading(rank, durable.task);
    record_durable(durable);
    count_spill(durable.task);
  }
  for (const auto& read : request.read_tasks) {
    if (!holds(rank, read.task)) continue;
    end_reading(rank, read.task);
    record_read(read.task, read.counts);
  }
  if (request.failed_task && holds(rank, request.failed_task->task)) {
    const int64_t number = request.failed_task->task;
    end_reading(rank, number);
    at(number).failure = request.failed_task->failure;
    at(number).failure->rank = rank;
    at(number).failure->task = number;
    first_failed_task_ = std::min(first_failed_task_, number);
  }
  extend_offsets();
  add_to_last_passes();
  take_results(rank, request.part_results);
  if (request.leaving) {
    RunFailure failure = *request.leaving;
    failure.rank = rank;
    fail(std::move(failure));
  }
  reply.failure = failure_;
  reply.all_done = all_done();
  if (failure_ || request.leaving) return reply;
  give_tasks(rank, request.num_tasks_wanted, reply);
  send_offsets(rank, reply);
  if (last_passes_) {
    reply.parts = last_passes_->give(rank, request.num_parts_wanted, limits_.num_ranks);
  }
  return reply;
}

bool Ledger::holds(int rank, int64_t number) const {
  return number >= 0 && number < std::ssize(states_) && at(number).rank == rank &&
         at(number).kind == State::Kind::kHeld;
}

void Ledger::record_read(int64_t number, const TaskCounts& counts) {
  State& state = at(number);
  if (state.is_read) return;
  if (counts.datasets.size() != offsets_.back().datasets.size() ||
      (last_passes_ && counts.written.size() != counts.datasets.size())) {
    throw std::logic_error("ledger: counts of " + std::to_string(counts.datasets.size()) +
                           " datasets for task " + std::to_string(number));
  }
  state.is_read = true;
  state.counts = counts;
}

void Ledger::record_durable(const LedgerRequest::Durable& durable) {
  State& state = at(durable.task);
  state.progress = durable.progress;
  state.copied_spill.insert(state.copied_spill.end(), durable.copied_spill.begin(),
                            durable.copied_spill.end());
  changed_.insert(durable.task);
  if (!state.progress.is_read) return;
  record_read(durable.task, state.progress.counts);
  if (!state.progress.is_done()) return;
  unsent_offsets_[state.rank].erase(durable.task);
  state.kind = State::Kind::kDone;
  ++num_done_;
}

// How many more tasks `rank` may be given: with those it reads, 1/num_ranks of all that are not
// read to their ends, rounded up. So a rank that reads nothing is given one if there is one.
int64_t Ledger::fair_share(int rank) {
  return (num_unread_ + limits_.num_ranks - 1) / limits_.num_ranks - num_reading_[rank];
}

void Ledger::end_reading(int rank, int64_t number) {
  if (!std::exchange(at(number).is_reading, false)) return;
  --num_reading_[rank];
  --num_unread_;
}

void Ledger::give_tasks(int rank, int64_t num_wanted, LedgerReply& reply) {
  num_wanted = std::min(num_wanted, fair_share(rank));
  while (num_wanted > 0 && next_task_ < std::ssize(tasks_) && next_task_ < first_failed_task_) {
    const int64_t number = next_task_;
    const bool is_done = at(number).kind == State::Kind::kDone;
    if (!is_done && !may_be_spilled(number)) return;
    ++next_task_;
    if (is_done) continue;
    give(rank, number, reply);
    --num_wanted;
  }
}

void Ledger::give(int rank, int64_t number, LedgerReply& reply) {
  State& state = at(number);
  state.kind = State::Kind::kHeld;
  state.rank = rank;
  state.is_offset_sent = number <= num_offsets_known();  // in the same reply
  unsent_offsets_[rank].insert(number);
  state.is_reading = true;
  ++num_reading_[rank];
  if (state.progress.is_read) end_reading(rank, number);
  count_spill(number);
  reply.assigned.push_back({tasks_[static_cast<size_t>(number)], state.progress});
}

// The most that a task can come to hold in spill files, if its offset is not known.
int64_t Ledger::most_spill_bytes(int64_t number) const {
  const TaskProgress& progress = at(number).progress;
  const int64_t spilled_bytes = num_bytes_of(progress.spill);
  if (progress.is_read || limits_.output_bytes.empty()) return spilled_bytes;
  return std::max(spilled_bytes, limits_.output_bytes.at(static_cast<size_t>(number)));
}

// A task that has an offset needs no spill file: so the one that all others wait for can always be
// given.
bool Ledger::may_be_spilled(int64_t number) const {
  if (number <= num_offsets_known()) return true;
  const int64_t others_bytes = spill_bytes_ - at(number).spill_bytes;
  return most_spill_bytes(number) <= limits_.max_spill_bytes - others_bytes;
}

// To be called when the task's progress, its holder, or what that knows of its offset has changed.
void Ledger::count_spill(int64_t number) {
  State& state = at(number);
  const bool may_grow = state.kind == State::Kind::kHeld && !state.is_offset_sent;
  const int64_t bytes = may_grow ? most_spill_bytes(number) : num_bytes_of(state.progress.spill);
  spill_bytes_ += bytes - state.spill_bytes;
  state.spill_bytes = bytes;
}

void Ledger::fail(RunFailure failure) {
  if (!failure_) failure_ = std::move(failure);
}

std::vector<LedgerRequest::Durable> Ledger::take_changed() {
  std::vector<LedgerRequest::Durable> changed;
  for (const int64_t number : changed_) {
    changed.push_back({number, at(number).progress, std::exchange(at(number).copied_spill, {})});
  }
  changed_.clear();
  return changed;
}

void Ledger::add_to_last_passes() {
  for (; last_passes_ && num_in_last_passes_ < num_offsets_known(); ++num_in_last_passes_) {
    const State& state = at(num_in_last_passes_);
    if (state.kind != State::Kind::kDone) return;
    const TaskOffset& offset = offsets_.at(static_cast<size_t>(num_in_last_passes_));
    for (size_t k = 0; k < offset.datasets.size(); ++k) {
      last_passes_->add_task(k, {offset.datasets[k], offset.num_input_bytes},
                             state.counts.written.at(k));
    }
  }
}

void Ledger::complete_last_passes(const std::vector<DatasetFrame>& frames) {
  last_passes_.value().complete(end().datasets, frames);
}

void Ledger::take_results(int rank, const std::vector<LastPassResult>& results) {
  if (!last_passes_) return;
  for (const LastPassResult& result : results) last_passes_->take(rank, result);
  if (!results.empty() && last_passes_->all_done()) fail_for_lost_bytes();
}

void Ledger::fail_for_lost_bytes() {
  const std::vector<LostBytes> lost = last_passes_->lost_bytes();
  if (lost.empty()) return;
  // Not done, for a run that goes on.
  for (const LostBytes& each : lost) {
    for (int64_t number = each.first_task; number < each.end_task; ++number) {
      at(number).progress = {};
      changed_.insert(number);
    }
  }
  const LostBytes& first = lost.front();
  std::string message = "'" + first.path + "': bytes " + std::to_string(first.begin_bytes) +
                        " to " + std::to_string(first.end_bytes);
  if (first.first_task < first.end_task) {
    const Task& task = tasks_.at(static_cast<size_t>(first.first_task));
    message += ", made from '" + input_names_.at(static_cast<size_t>(task.input_idx)) +
               "' from its byte " + std::to_string(task.begin);
  }
  message += ", are not what was written there";
  if (lost.size() > 1) message += " (nor are " + std::to_string(lost.size() - 1) + " other ranges)";
  fail({static_cast<int>(ExitCode::kChecksumMismatch),
        message + "; the file system or a disk lost it, and no dataset was made. Run the same "
                  "command again: it makes only what was lost anew. If it is lost again, and "
                  "several machines write to a file system that keeps whole pages of a file on "
                  "each of them (NFS, SMB), give every machine a part of its own with --shard, "
                  "and merge the parts",
        {}});
}

std::vector<BadLine> Ledger::take_bad_lines() { return std::exchange(new_bad_lines_, {}); }

}  // namespace weft
