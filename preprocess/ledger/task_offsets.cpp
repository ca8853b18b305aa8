// The part of the ledger that is about order: where the documents of a task go, as soon as all
// before it are counted, and what is then known of its bad lines and failures.
#include <algorithm>
#include <utility>

#include "indexed_dataset/process/exit_code.h"
#include "preprocess/ledger/ledger.h"

namespace weft {

void Ledger::begin_within(std::optional<int64_t> num_input_bytes) {
  begins_within_ = true;
  knows_where_ = num_input_bytes.has_value();
  next_offset_.num_input_bytes = num_input_bytes.value_or(0);
  offsets_.back() = next_offset_;
}

void Ledger::tell_offsets(int rank, LedgerReply& reply) {
  std::set<int64_t>& untold = untold_[rank];
  while (!untold.empty() && *untold.begin() <= num_offsets_known_) {
    const int64_t number = *untold.begin();
    reply.offsets_known.push_back({number, offsets_[static_cast<size_t>(number)]});
    untold.erase(untold.begin());
    at(number).is_offset_told = true;
    count_spill(number);
  }
}

// offsets_[i] is the offset of task i; it is known for all tasks up to the first whose counts are not.
void Ledger::extend_offsets() {
  while (num_offsets_known_ < std::ssize(tasks_)) {
    meet_failure(num_offsets_known_);
    const State& state = at(num_offsets_known_);
    if (!state.is_read || failure_) break;
    add_bad_lines(num_offsets_known_);
    for (size_t k = 0; k < next_offset_.datasets.size(); ++k) {
      next_offset_.datasets[k].add(state.counts.datasets.at(k));
    }
    next_offset_.num_input_lines += state.counts.totals.num_lines;
    next_offset_.num_input_bytes += state.counts.num_range_bytes;
    check_output(num_offsets_known_);
    ++num_offsets_known_;
    const bool same_input = num_offsets_known_ < std::ssize(tasks_) &&
                            tasks_[static_cast<size_t>(num_offsets_known_)].input_idx ==
                                tasks_[static_cast<size_t>(num_offsets_known_ - 1)].input_idx;
    offsets_.push_back(next_offset_);
    if (!same_input) {
      next_offset_.num_input_lines = next_offset_.num_input_bytes = 0;
      offsets_.back() = next_offset_;
    }
  }
  // Ahead of the order as well: one stream may be the whole input. Work done twice would count
  // twice.
  if (limits_.max_bad_lines >= 0 && gone_.empty() &&
      seen_.bad_lines.total() > limits_.max_bad_lines) {
    num_bad_lines_ = std::max(num_bad_lines_, seen_.bad_lines.total());
  }
  if (limits_.max_bad_lines >= 0 && num_bad_lines_ > limits_.max_bad_lines) {
    fail({static_cast<int>(ExitCode::kBadInput),
          "more bad lines than --max-bad-lines " + std::to_string(limits_.max_bad_lines) +
              " allows; nothing was written",
          {}});
  }
}

bool Ledger::is_compressed(int64_t number) const {
  const auto input_idx = static_cast<size_t>(tasks_[static_cast<size_t>(number)].input_idx);
  return input_idx < limits_.is_compressed.size() && limits_.is_compressed[input_idx];
}

void Ledger::add_bad_lines(int64_t number) {
  const TaskCounts& counts = at(number).counts;
  num_bad_lines_ += counts.totals.bad_lines.total();
  for (BadLine bad_line : counts.bad_lines) {
    if (num_bad_lines_taken_ >= kNumShownBadLines) return;
    ++num_bad_lines_taken_;
    complete(bad_line, number);
    new_bad_lines_.push_back(std::move(bad_line));
  }
}

// What only the offset of its task tells of a bad line.
void Ledger::complete(BadLine& bad_line, int64_t number) const {
  const int32_t input_idx = tasks_[static_cast<size_t>(number)].input_idx;
  bad_line.input = input_names_.at(static_cast<size_t>(input_idx));
  bad_line.line_number += next_offset_.num_input_lines;
  bad_line.offset_bytes += next_offset_.num_input_bytes;
  bad_line.counts_lines_of_part = begins_within_ && input_idx == tasks_.front().input_idx;
  bad_line.counts_bytes_of_part = bad_line.counts_lines_of_part && !knows_where_;
}

// A reader knows its own task only, and one bomb may be many frames.
void Ledger::check_output(int64_t number) {
  if (!is_compressed(number) || next_offset_.num_input_bytes <= limits_.max_output_bytes) return;
  const auto input_idx = static_cast<size_t>(tasks_[static_cast<size_t>(number)].input_idx);
  fail({static_cast<int>(ExitCode::kOutOfMemory),
        input_names_.at(input_idx) + ": gives more than the " +
            std::to_string(limits_.max_output_bytes) +
            " bytes allowed per input; if it is no decompression bomb, raise --max-output",
        {}});
}

// The failure of the first task without counts is the first one in input order.
void Ledger::meet_failure(int64_t number) {
  const State& state = at(number);
  if (!state.failure) return;
  RunFailure failure = *state.failure;
  if (failure.bad_line) {
    complete(*failure.bad_line, number);
    failure.message = failure.bad_line->message() + failure.message;
  }
  fail(std::move(failure));
}

}  // namespace weft
