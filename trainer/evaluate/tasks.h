// Benchmarks whose answers are endings of a text: each ending's log-likelihood is what the model
// gives it. The numbers are those of EleutherAI's lm-evaluation-harness.
//
// A file has an example in each line, with the index of the right ending:
//
//   {"context": "The sky is", "endings": [" blue", " a fish"], "label": 0}
//   {"contexts": ["Ann thanked Bo because Ann", "... because Bo"], "endings": [" helped."],
//    "label": 1}                                     one ending after several contexts
//   {"context": "She opened the", "endings": [" door"]}           one ending: is it the model's own?
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"
#include "trainer/evaluate/scorer.h"

namespace weft {

struct TaskChoice {
  std::string context, ending;
};
struct TaskExample {
  std::vector<TaskChoice> choices;
  size_t label = 0;
};
struct Task {
  std::string name;  // of the file, without .jsonl
  std::vector<TaskExample> examples;
  // Each example has one choice alone: its ending is right if it is the model's own continuation.
  bool is_continuation = false;
};

// Reads at most `limit` examples. Throws std::runtime_error, which names file and line, for a line
// that is none, and for a file without lines.
Task read_task(const std::filesystem::path& file, std::optional<int64_t> limit);

// Returns the request of a choice, [Gao et al., lm_eval/api/model.py _encode_pair]: spaces at the
// end of the context begin the ending, the ending's tokens are those that the whole text has behind
// as many as the context's, and of more than `longest` inputs the first ones are left out. Both
// begin with the tokens that the tokenizer puts before each text (LLaMA's <s>), unless the text
// does. An empty context is the first of these, or `prefix`; that must not be -1 then
// (std::runtime_error).
ScoreRequest request_of(const TaskChoice& choice, Tokenizer& tokenizer, int32_t prefix,
                        int64_t longest);

struct ExampleResult {
  std::vector<Score> scores;  // by choice
  bool is_correct = false;
  bool is_correct_normalised = false;  // by log-likelihoods of a character
};
// The choice with the greatest log-likelihood counts; of equal ones the first.
ExampleResult judge(const Task& task, const TaskExample& example, std::vector<Score> scores);

struct TaskResult {
  int64_t num_examples = 0;
  double accuracy = 0, accuracy_error = 0;  // the standard error of the mean
  double accuracy_normalised = 0, accuracy_normalised_error = 0;
  double perplexity = 0;  // of right endings, of tasks of continuations
};
TaskResult summarise(const std::vector<ExampleResult>& results);

}  // namespace weft
