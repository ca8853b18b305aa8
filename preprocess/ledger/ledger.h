// The ledger of a run: which rank reads which task, at which offset its documents are written, and
// what is done. No files, threads or clocks. One thread at a time.
//
//   task:  waiting -> held by a rank -> read (counts known) -> in the output, synced: done
//                          '-> failed: earlier tasks are read to their ends, then the run fails
//
// A task has an offset as soon as all tasks before it are read. A lost rank's tasks wait again, in
// the next run, behind what the journal has of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "preprocess/ledger/last_passes.h"
#include "preprocess/ledger/ledger_link.h"

namespace weft {

class Ledger {
 public:
  struct Limits {
    int64_t max_bad_lines = -1;  // < 0: any number
    // No rank is given more unread tasks than its share of all that are left, or the first one
    // would take every stream of a corpus of few.
    int num_ranks = 1;
    // Decompressed, of one input for which `is_compressed` is true, over all its tasks.
    int64_t max_output_bytes = INT64_MAX;
    std::vector<bool> is_compressed{};  // by input; empty: none is
    // The most that may lie in spill files. A task without an offset is handed out only if its
    // documents, by the estimate of `output_bytes` for each task, fit there beside those of the
    // others. The first task that is not read needs no spill file, and is always handed out.
    int64_t max_spill_bytes = INT64_MAX;
    std::vector<int64_t> output_bytes{};
    // There are last passes, over these files: complete_last_passes() is to be called.
    std::optional<WrittenFiles> written_files{};
    std::vector<DocumentUnit> units{};  // by input; empty: lines
  };
  // `tasks` are in output order, numbered from 0; messages call inputs by `input_names`;
  // `num_datasets` is the number of keys. In a shard whose first task begins within an input, lines
  // count from that task's begin, and so do bytes if the input is compressed.
  Ledger(std::vector<Task> tasks, std::vector<std::string> input_names, size_t num_datasets,
         Limits limits);

  // Before the first request: what an earlier run of the same work has done of task `number`.
  void restore(int64_t number, TaskProgress progress);

  // Answers one request of `rank`. Takes time in proportion to what the request says and the reply
  // holds.
  LedgerReply answer(int rank, const LedgerRequest& request);

  // Tasks whose durable progress has changed since the last call.
  std::vector<LedgerRequest::Durable> take_changed();
  // The bad lines of tasks whose offset is known, since the last call: complete, in input order, of
  // all at most kNumShownBadLines.
  std::vector<BadLine> take_bad_lines();

  bool tasks_done() const { return num_done_ == std::ssize(states_); }
  // When all tasks are done and the files have their sizes and frames.
  void complete_last_passes(const std::vector<DatasetFrame>& frames);
  const LastPasses& last_passes() const { return last_passes_.value(); }
  bool all_done() const { return tasks_done() && (!last_passes_ || last_passes_->all_done()); }
  const std::optional<RunFailure>& failure() const { return failure_; }
  void fail(RunFailure failure);  // for reasons outside of the ledger; the first one counts
  const PipelineTotals& seen() const { return seen_; }  // grows as ranks tokenize

  const std::vector<Task>& tasks() const { return tasks_; }
  int64_t num_tasks_handed_out() const { return next_task_; }
  // When all is done: counts of one task, and of all together.
  const TaskCounts& counts(int64_t number) const { return at(number).counts; }
  const TaskOffset& end() const { return offsets_.back(); }
  // About what lies in spill files, or may come to lie there of tasks that are handed out.
  int64_t spill_bytes() const { return spill_bytes_; }

 private:
  struct State {
    enum class Kind : uint8_t { kWaiting, kHeld, kDone } kind = Kind::kWaiting;
    int rank = -1;            // that holds it
    bool is_reading = false;  // by that rank, and counted in num_reading_
    bool is_read = false;     // counts are those of the whole task
    bool is_offset_sent = false;
    TaskCounts counts;
    TaskProgress progress;
    std::vector<SpillFile> copied_spill;  // not in the journal yet
    std::optional<RunFailure> failure;
    int64_t spill_bytes = 0;  // its part of spill_bytes_
  };
  State& at(int64_t number);
  const State& at(int64_t number) const;
  bool holds(int rank, int64_t number) const;
  void record_read(int64_t number, const TaskCounts& counts);
  void record_durable(const LedgerRequest::Durable& durable);
  int64_t fair_share(int rank);
  void end_reading(int rank, int64_t number);
  void give_tasks(int rank, int64_t num_wanted, LedgerReply& reply);
  void give(int rank, int64_t number, LedgerReply& reply);
  int64_t most_spill_bytes(int64_t number) const;
  bool may_be_spilled(int64_t number) const;
  void count_spill(int64_t number);
  void send_offsets(int rank, LedgerReply& reply);
  void extend_offsets();
  // Tasks up to this one have an offset.
  int64_t num_offsets_known() const { return std::ssize(offsets_) - 1; }
  void add_bad_lines(int64_t number);
  void complete(BadLine& bad_line, int64_t number) const;
  void check_output(int64_t number, int64_t num_input_bytes);
  bool is_compressed(int64_t number) const;
  void propagate_failure(int64_t number);
  void take_results(int rank, const std::vector<LastPassResult>& results);
  void add_to_last_passes();
  void fail_for_lost_bytes();

  std::vector<Task> tasks_;
  std::vector<std::string> input_names_;
  Limits limits_;
  std::vector<State> states_;
  // The offsets of all tasks up to the first one whose counts are not known, and in the end one
  // more: where the last task ends.
  std::vector<TaskOffset> offsets_;
  int64_t next_task_ = 0;               // tasks before it were handed out, or were done before
  std::map<int, int64_t> num_reading_;  // by rank: tasks that it reads
  std::map<int, std::set<int64_t>> unsent_offsets_;  // by rank: tasks whose offset it does not have
  std::set<int64_t> changed_;
  int64_t spill_bytes_ = 0;  // spill_bytes()
  int64_t num_done_ = 0;
  int64_t num_unread_;         // tasks that are not read to their ends, or were not handed out
  int64_t first_failed_task_;  // no later one is handed out
  int64_t num_bad_lines_taken_ = 0;
  std::vector<BadLine> new_bad_lines_;
  std::optional<RunFailure> failure_;
  PipelineTotals seen_;
  std::optional<LastPasses> last_passes_;
  int64_t num_in_last_passes_ = 0;  // tasks before it are in last_passes_
};

}  // namespace weft
