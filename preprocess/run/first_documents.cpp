#include "preprocess/run/first_documents.h"

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/documents/row_reader.h"
#include "preprocess/rank/task_reader.h"

namespace weft {
namespace {

// Counts the documents of a task down. Returns where in it the first line or row behind the last
// one that is wanted begins; -1 if that is not in the task. `documents` reads its chunks.
template <class Documents, class Text>
int64_t end_in_task(TaskReader& reader, Documents& documents, Text Chunk::*text,
                    const Condition& where, int64_t& num_left) {
  LeftOutCounts left_out;
  for (Chunk chunk; reader.next(chunk);) {
    documents.open(chunk.*text);
    while (documents.next()) {
      if (num_left == 0) return documents.locator();
      const bool is_document = documents.outcome().problem == LineProblem::kNone;
      if (is_document && holds(where, documents, left_out)) --num_left;
    }
    if (num_left == 0) return reader.next_offset_bytes();
  }
  return -1;
}

}  // namespace

WorkPlan first_documents(WorkPlan plan, int64_t count, const RankOptions& options,
                         const std::atomic<bool>& cancelled) {
  if (!plan.can_resume()) {
    throw UsageError(
        "--limit reads its documents twice, which a pipe cannot give: cut it with head -n instead");
  }
  const TokenizeRules& rules = options.rules;
  const auto lines = make_chunk_reader(rules);
  RowReader rows(rules.json_keys, rules.max_line_bytes, rules.where);
  const DecodeOptions decoding{.max_output_bytes = options.max_output_bytes,
                               .read_ahead = true,
                               .decoder = {.max_bytes = options.max_decoder_bytes}};
  for (Task& task : plan.tasks) {
    const Input& input = plan.input_of(task);
    const auto reader = open_task(input, task, 0, options, decoding, cancelled);
    task.limit_bytes = input.layout().has_rows
                           ? end_in_task(*reader, rows, &Chunk::rows, rules.where, count)
                           : end_in_task(*reader, *lines, &Chunk::lines, rules.where, count);
    if (task.limit_bytes < 0) continue;
    plan.tasks.resize(static_cast<size_t>(task.number) + 1);
    break;
  }
  return plan;
}

}  // namespace weft
