// The part of the ledger that is about order: where the documents of a task go, which is known as
// soon as all tasks before it are counted, and then the lines and bytes of its bad lines and
// failures.
#include <algorithm>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/ledger/ledger.h"

namespace weft {

void Ledger::send_offsets(int rank, LedgerReply& reply) {
  std::set<int64_t>& unsent = unsent_offsets_[rank];
  while (!unsent.empty() && *unsent.begin() <= num_offsets_known()) {
    const int64_t number = *unsent.begin();
    reply.offsets_known.push_back({number, offsets_[static_cast<size_t>(number)]});
    unsent.erase(unsent.begin());
    at(number).is_offset_sent = true;
    count_spill(number);
  }
}

void Ledger::extend_offsets() {
  while (num_offsets_known() < std::ssize(tasks_)) {
    const int64_t number = num_offsets_known();
    propagate_failure(number);
    const State& state = at(number);
    if (!state.is_read || failure_) break;
    add_bad_lines(number);
    TaskOffset next = offsets_.back();
    for (size_t k = 0; k < next.datasets.size(); ++k) {
      next.datasets[k].add(state.counts.datasets.at(k));
    }
    next.num_input_lines += state.counts.totals.num_lines;
    next.num_input_bytes += state.counts.num_range_bytes;
    check_output(number, next.num_input_bytes);
    const auto i = static_cast<size_t>(number);
    if (i + 1 == tasks_.size() || tasks_[i + 1].input_idx != tasks_[i].input_idx) {
      next.num_input_lines = next.num_input_bytes = 0;
    }
    offsets_.push_back(std::move(next));
  }
  // Not in the order of the input: one stream may be the whole of it.
  if (limits_.max_bad_lines >= 0 && seen_.bad_lines.total() > limits_.max_bad_lines) {
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
  for (BadLine bad_line : at(number).counts.bad_lines) {
    if (num_bad_lines_taken_ >= kNumShownBadLines) return;
    ++num_bad_lines_taken_;
    complete(bad_line, number);
    new_bad_lines_.push_back(std::move(bad_line));
  }
}

// Fills in what only the offset of its task tells of a bad line.
void Ledger::complete(BadLine& bad_line, int64_t number) const {
  const int32_t input_idx = tasks_[static_cast<size_t>(number)].input_idx;
  bad_line.input = input_names_.at(static_cast<size_t>(input_idx));
  bad_line.line_number += offsets_.back().num_input_lines;
  bad_line.offset_bytes += offsets_.back().num_input_bytes;
  bad_line.counts_lines_of_part = tasks_.front().begin > 0 && input_idx == tasks_.front().input_idx;
  bad_line.counts_bytes_of_part = bad_line.counts_lines_of_part && is_compressed(number);
  const auto i = static_cast<size_t>(input_idx);
  bad_line.unit = i < limits_.units.size() ? limits_.units[i] : DocumentUnit::kLine;
}

// A reader knows its own task only, and one bomb may be many frames.
void Ledger::check_output(int64_t number, int64_t num_input_bytes) {
  if (!is_compressed(number) || num_input_bytes <= limits_.max_output_bytes) return;
  const auto input_idx = static_cast<size_t>(tasks_[static_cast<size_t>(number)].input_idx);
  fail({static_cast<int>(ExitCode::kOutOfMemory),
        input_names_.at(input_idx) + ": gives more than the " +
            std::to_string(limits_.max_output_bytes) +
            " bytes allowed per input; if it is no decompression bomb, raise --max-output",
        {}});
}

// The failure of the first task without counts is the first one in input order.
void Ledger::propagate_failure(int64_t number) {
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
