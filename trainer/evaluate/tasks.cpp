#include "trainer/evaluate/tasks.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <tuple>

#include "indexed_dataset/base/storage/file_io.h"

namespace weft {

namespace {

using SortedJson = nlohmann::json;

std::vector<std::string> texts_of(const SortedJson& line, const char* one, const char* several) {
  if (line.contains(one)) return {line.at(one).get<std::string>()};
  return line.at(several).get<std::vector<std::string>>();
}

TaskExample example_of(const SortedJson& line) {
  std::vector<std::string> contexts = texts_of(line, "context", "contexts");
  std::vector<std::string> endings = texts_of(line, "ending", "endings");
  const size_t num_choices = std::max(contexts.size(), endings.size());
  if (contexts.empty() || endings.empty())
    throw std::runtime_error("there is no ending or context");
  if ((contexts.size() != 1 && contexts.size() != num_choices) ||
      (endings.size() != 1 && endings.size() != num_choices)) {
    throw std::runtime_error(std::to_string(contexts.size()) + " contexts and " +
                             std::to_string(endings.size()) +
                             " endings: give as many, or one of either");
  }
  contexts.resize(num_choices, contexts.front());
  endings.resize(num_choices, endings.front());
  TaskExample example;
  for (size_t i = 0; i < num_choices; ++i) {
    if (endings[i].empty()) throw std::runtime_error("an ending is empty");
    example.choices.push_back({contexts[i], endings[i]});
  }
  const SortedJson given = num_choices == 1 ? line.value("label", SortedJson(0)) : line.at("label");
  if (!given.is_number_integer())
    throw std::runtime_error("label " + given.dump() + " is no integer");
  const auto label = given.get<int64_t>();
  if (label < 0 || label >= static_cast<int64_t>(num_choices)) {
    throw std::runtime_error("label " + std::to_string(label) + " is none of the " +
                             std::to_string(num_choices) + " choices");
  }
  example.label = static_cast<size_t>(label);
  return example;
}

// The tokens that the tokenizer puts before each text, unless the text begins with the first one.
std::vector<int32_t> beginning_of(const std::string& text, const Vocabulary& vocabulary) {
  const std::vector<int32_t>& ids = vocabulary.prefix_ids();
  if (ids.empty() || text.starts_with(vocabulary.bytes(ids.front()))) return {};
  return ids;
}

// Characters as Python counts them. One space before the ending only separates it from the context.
double num_characters(const std::string& ending) {
  const size_t first = ending.starts_with(' ') ? 1 : 0;
  return static_cast<double>(
      std::count_if(ending.begin() + static_cast<std::ptrdiff_t>(first), ending.end(),
                    [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

template <typename Value>
size_t first_largest(size_t count, const Value& value) {
  size_t best = 0;
  for (size_t i = 1; i < count; ++i) {
    if (value(i) > value(best)) best = i;
  }
  return best;
}

// The mean of zeros and ones and its standard error, with the sample's deviation.
std::pair<double, double> mean_with_error(double num_ones, double n) {
  const double mean = num_ones / n;
  return {mean, n > 1 ? std::sqrt(mean * (1 - mean) / (n - 1)) : 0.0};
}

}  // namespace

Task read_task(const std::filesystem::path& file, std::optional<int64_t> limit) {
  Task task{.name = file.stem().string(), .examples = {}};
  std::istringstream lines(read_file(file));
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (limit && static_cast<int64_t>(task.examples.size()) == *limit) break;
    try {
      task.examples.push_back(example_of(SortedJson::parse(line)));
    } catch (const std::exception& error) {
      throw std::runtime_error(
          file.string() + ":" + std::to_string(number) +
          ": not an example like {\"context\": \"...\", \"endings\": [\"...\", "
          "\"...\"], \"label\": 0}: " +
          error.what());
    }
  }
  if (task.examples.empty()) throw std::runtime_error(file.string() + " holds no examples");
  task.is_continuation =
      std::all_of(task.examples.begin(), task.examples.end(),
                  [](const TaskExample& example) { return example.choices.size() == 1; });
  return task;
}

ScoreRequest request_of(const TaskChoice& choice, Tokenizer& tokenizer, int32_t prefix,
                        int64_t longest) {
  const size_t end = choice.context.find_last_not_of(" \t\n\r\f\v");
  const size_t num_kept = end == std::string::npos ? 0 : end + 1;
  const std::string context = choice.context.substr(0, num_kept);
  ScoreRequest request;
  const std::vector<int32_t>& before_texts = tokenizer.vocabulary().prefix_ids();
  if (context.empty()) {
    const int32_t first = before_texts.empty() ? prefix : before_texts.front();
    if (first < 0)
      throw std::runtime_error(
          "a context is empty, and the model has no token to begin a text with");
    request.tokens = {first};
    tokenizer.encode(choice.context + choice.ending, request.tokens);
  } else {
    std::vector<int32_t> of_context = beginning_of(context, tokenizer.vocabulary());
    request.tokens = of_context;
    tokenizer.encode(context, of_context);
    tokenizer.encode(choice.context + choice.ending, request.tokens);
    request.num_context = of_context.size();
  }
  if (request.tokens.size() <= request.num_context) {
    throw std::runtime_error("the ending '" + choice.ending +
                             "' has no token of its own behind its context");
  }
  if (request.num_inputs() <= longest) return request;
  const auto excess = static_cast<size_t>(request.num_inputs() - longest);
  if (excess >= request.num_context) {
    throw std::runtime_error("the ending '" + choice.ending.substr(0, 40) +
                             "...' has more than the " + std::to_string(longest) +
                             " tokens that the model takes");
  }
  request.tokens.erase(request.tokens.begin(),
                       request.tokens.begin() + static_cast<std::ptrdiff_t>(excess));
  request.num_context -= excess;
  return request;
}

ExampleResult judge(const Task& task, const TaskExample& example, std::vector<Score> scores) {
  ExampleResult result{.scores = std::move(scores)};
  const std::vector<Score>& all = result.scores;
  if (task.is_continuation) {
    result.is_correct = result.is_correct_normalised = all.front().is_greedy;
    return result;
  }
  result.is_correct =
      first_largest(all.size(), [&](size_t i) { return all[i].log_likelihood; }) == example.label;
  result.is_correct_normalised =
      first_largest(all.size(), [&](size_t i) {
        return all[i].log_likelihood / num_characters(example.choices[i].ending);
      }) == example.label;
  return result;
}

TaskResult summarise(const std::vector<ExampleResult>& results) {
  double num_correct = 0, num_normalised = 0, sum = 0;
  for (const ExampleResult& result : results) {
    num_correct += result.is_correct ? 1 : 0;
    num_normalised += result.is_correct_normalised ? 1 : 0;
    sum += result.scores.front().log_likelihood;
  }
  const auto n = static_cast<double>(results.size());
  TaskResult total{.num_examples = static_cast<int64_t>(results.size())};
  std::tie(total.accuracy, total.accuracy_error) = mean_with_error(num_correct, n);
  std::tie(total.accuracy_normalised, total.accuracy_normalised_error) =
      mean_with_error(num_normalised, n);
  total.perplexity = std::exp(-sum / n);
  return total;
}

}  // namespace weft
