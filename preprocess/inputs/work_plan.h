// The work of a run: the inputs cut into tasks, in output order. It depends on the inputs only, so
// that every rank, and every later run, cuts alike.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "preprocess/inputs/input_list.h"

namespace weft {

// A range [begin, end) of the bytes of input `input_idx`. Lines belong to the range in which the
// byte before their first one lies, and to the first range those at byte 0 (owned_lines.h).
struct Task {
  int64_t number = 0;  // from 0, in output order
  int32_t input_idx = 0;
  int64_t begin = 0, end = 0;  // bytes of the file; end -1: to its end, wherever that is (a pipe)
  // Decompressed bytes, or rows, behind `begin` at which reading ends, between two lines; -1: not
  // before the range does. Only the last task of a run with --limit has such an end.
  int64_t limit_bytes = -1;
};

// 32 MiB: what is held in memory until its place is known is about half of it for each task that is
// being read; a message to the ledger for so much costs nothing.
inline constexpr int64_t kTaskBytes = int64_t{32} << 20;

struct WorkPlan {
  Inputs inputs;
  std::vector<Task> tasks;

  const Input& input_of(const Task& task) const {
    return *inputs.at(static_cast<size_t>(task.input_idx));
  }
  std::vector<bool> compressed_inputs() const;  // for each: whether it is
  std::vector<bool> inputs_with_rows() const;   // for each: whether positions in it count rows
  bool can_resume() const;                      // every input can be told from a changed one
};

// Looks at every input, for `wanted` of tables, with what another process has `found`
// (look_at_inputs.h). `task_bytes` of the file (compressed where compressed) make a task, or more
// where the file cannot be cut so finely; an address of lines is one task. Throws as Input::look().
WorkPlan plan_work(Inputs inputs, int64_t task_bytes, const std::atomic<bool>& cancelled,
                   const RowRequest& wanted = {}, const std::string& found = "");

// The first input that is no longer what the plan was made for; null if all are.
const Input* find_changed_input(const WorkPlan& plan);

// The bytes of files that all tasks read; -1 if it is not known where one of them ends.
int64_t num_file_bytes(const WorkPlan& plan);

// The share of the plan for part `index` of `count`: a run of consecutive tasks with about the same
// number of file bytes as every other part, numbered from 0. Parts in order make the whole.
WorkPlan shard_of(WorkPlan plan, int64_t index, int64_t count);

}  // namespace weft
