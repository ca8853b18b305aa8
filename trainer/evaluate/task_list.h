// Several benchmarks whose endings are scored together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainer/evaluate/tasks.h"

namespace weft {

class TaskList {
 public:
  // Reads at most `limit` examples of each file. Throws as read_task() and request_of(), with file
  // and line.
  TaskList(const std::vector<std::string>& files, std::optional<int64_t> limit,
           Tokenizer& tokenizer, int32_t prefix, int64_t longest);

  const std::vector<Task>& tasks() const { return tasks_; }
  const std::vector<ScoreRequest>& requests() const { return requests_; }  // of all choices
  int64_t longest_request() const;                                         // in inputs

  // Returns the results of the examples, by task. There is a score for each request.
  std::vector<std::vector<ExampleResult>> judge(std::span<const Score> scores) const;

 private:
  std::vector<Task> tasks_;
  std::vector<ScoreRequest> requests_;
};

// Returns the numbers of a summary under the names that files give them: "accuracy",
// "accuracy_stderr", and those of length normalisation or, of continuations, "perplexity".
std::vector<std::pair<std::string, double>> named_numbers(const Task& task,
                                                          const TaskResult& result);

}  // namespace weft
