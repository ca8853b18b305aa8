#include "trainer/evaluate/task_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace weft {

TaskList::TaskList(const std::vector<std::string>& files, std::optional<int64_t> limit,
                   Tokenizer& tokenizer, int32_t prefix, int64_t longest) {
  for (const std::string& file : files) {
    tasks_.push_back(read_task(file, limit));
    for (size_t i = 0; i < tasks_.back().examples.size(); ++i) {
      try {
        for (const TaskChoice& choice : tasks_.back().examples[i].choices)
          requests_.push_back(request_of(choice, tokenizer, prefix, longest));
      } catch (const std::runtime_error& error) {
        throw std::runtime_error(fmt::format("{}:{}: {}", file, i + 1, error.what()));
      }
    }
  }
}

int64_t TaskList::longest_request() const {
  int64_t longest = 1;
  for (const ScoreRequest& request : requests_) longest = std::max(longest, request.num_inputs());
  return longest;
}

std::vector<std::vector<ExampleResult>> TaskList::judge(std::span<const Score> scores) const {
  std::vector<std::vector<ExampleResult>> results;
  for (const Task& task : tasks_) {
    results.emplace_back();
    for (const TaskExample& example : task.examples) {
      const auto own = scores.first(example.choices.size());
      results.back().push_back(weft::judge(task, example, {own.begin(), own.end()}));
      scores = scores.subspan(own.size());
    }
  }
  return results;
}

std::vector<std::pair<std::string, double>> named_numbers(const Task& task,
                                                          const TaskResult& result) {
  std::vector<std::pair<std::string, double>> numbers = {
      {"accuracy", result.accuracy}, {"accuracy_stderr", result.accuracy_error}};
  if (task.is_continuation) {
    numbers.emplace_back("perplexity", result.perplexity);
  } else {
    numbers.emplace_back("accuracy_normalised", result.accuracy_normalised);
    numbers.emplace_back("accuracy_normalised_stderr", result.accuracy_normalised_error);
  }
  return numbers;
}

}  // namespace weft
