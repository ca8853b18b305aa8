#include "preprocess/inputs/work_plan.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "preprocess/inputs/look_at_inputs.h"

namespace weft {
namespace {

// More tasks of one file would be more to keep in mind than to read: those of a file of over 32 TiB
// are larger.
constexpr int64_t kMaxTasksOfFile = 1 << 20;
// 9 PB: what file sizes sum up to stays far below an overflow.
constexpr int64_t kMaxInputBytes = int64_t{1} << 53;

void add_tasks(const InputLayout& layout, int32_t input_idx, int64_t task_bytes,
               std::vector<Task>& tasks) {
  const auto add = [&](int64_t begin, int64_t end) {
    tasks.push_back({std::ssize(tasks), input_idx, begin, end});
  };
  if (layout.cut_anywhere && !layout.is_one_task) {
    int64_t begin = 0;
    task_bytes = std::max(task_bytes, layout.file_bytes / kMaxTasksOfFile);
    for (; layout.file_bytes - begin > task_bytes; begin += task_bytes)
      add(begin, begin + task_bytes);
    add(begin, layout.file_bytes);
    return;
  }
  // An input that does not say its size is one task.
  int64_t begin = 0;
  for (const int64_t part_begin : layout.part_begins) {
    if (part_begin - begin < task_bytes) continue;
    add(begin, part_begin);
    begin = part_begin;
  }
  add(begin, layout.file_bytes);
}

}  // namespace

int64_t num_file_bytes(const WorkPlan& plan) {
  int64_t sum = 0;
  for (const Task& task : plan.tasks) {
    if (task.end < 0) return -1;
    sum += task.end - task.begin;
  }
  return sum;
}

bool WorkPlan::can_resume() const {
  return std::none_of(inputs.begin(), inputs.end(),
                      [](const auto& input) { return input->identity().version.empty(); });
}

std::vector<bool> WorkPlan::compressed_inputs() const {
  std::vector<bool> are_compressed;
  for (const auto& input : inputs) are_compressed.push_back(input->layout().is_compressed());
  return are_compressed;
}

std::vector<bool> WorkPlan::inputs_with_rows() const {
  std::vector<bool> have_rows;
  for (const auto& input : inputs) have_rows.push_back(input->layout().has_rows);
  return have_rows;
}

WorkPlan plan_work(Inputs inputs, int64_t task_bytes, const std::atomic<bool>& cancelled,
                   const RowRequest& wanted, const std::string& found) {
  look_at_inputs(inputs, found, wanted, cancelled);
  WorkPlan plan;
  int64_t num_bytes = 0;
  for (auto& input : inputs) {
    const InputLayout& layout = input->layout();
    num_bytes += std::clamp<int64_t>(layout.file_bytes, 0, kMaxInputBytes);
    if (num_bytes >= kMaxInputBytes) {
      throw std::runtime_error(input->name() + ": with it the inputs have over 2^53 bytes; is " +
                               "it a file with holes?");
    }
    add_tasks(layout, static_cast<int32_t>(plan.inputs.size()), task_bytes, plan.tasks);
    plan.inputs.push_back(std::move(input));
  }
  return plan;
}

const Input* find_changed_input(const WorkPlan& plan) {
  const auto found = std::find_if(plan.inputs.begin(), plan.inputs.end(),
                                  [](const auto& input) { return input->has_changed(); });
  return found == plan.inputs.end() ? nullptr : found->get();
}

WorkPlan shard_of(WorkPlan plan, int64_t index, int64_t count) {
  const auto weight = [](const Task& task) { return std::max<int64_t>(task.end - task.begin, 1); };
  int64_t total = 0;
  for (const Task& task : plan.tasks) total += weight(task);
  // A task belongs to the part in which its middle lies.
  std::vector<Task> mine;
  int64_t before = 0;
  for (Task& task : plan.tasks) {
    const auto middle = static_cast<double>(before) + 0.5 * static_cast<double>(weight(task));
    const auto part =
        static_cast<int64_t>(middle / static_cast<double>(total) * static_cast<double>(count));
    before += weight(task);
    if (std::min(part, count - 1) != index) continue;
    task.number = std::ssize(mine);
    mine.push_back(task);
  }
  plan.tasks = std::move(mine);
  return plan;
}

}  // namespace weft
