#include "trainer/evaluate/evaluate_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/format/pair/reader.h"
#include "trainer/evaluate/shared_contexts.h"
#include "trainer/evaluate/task_list.h"
#include "trainer/evaluate/windows.h"
#include "trainer/generate/model_options.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

enum class Format { kText, kJson };

void print_json(const Json& json) {
  std::puts(json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

// Reads the tokens of all documents of a dataset, one after the other.
std::vector<int32_t> tokens_of_dataset(const std::string& prefix, int64_t max_tokens,
                                       int64_t vocabulary_size) {
  const DatasetReader reader(prefix);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < reader.num_sequences(); ++i) {
    const int64_t left = max_tokens - static_cast<int64_t>(tokens.size());
    if (left <= 0) break;
    const int64_t count = std::min<int64_t>(left, reader.length(i));
    tokens.resize(tokens.size() + static_cast<size_t>(count));
    reader.copy_tokens(i, 0, count, tokens.data() + tokens.size() - count);
  }
  for (const int32_t token : tokens) {
    if (token >= 0 && token < vocabulary_size) continue;
    throw std::runtime_error(fmt::format(
        "{}: token {} is beyond the model's vocabulary of {}: it was made with another tokenizer",
        prefix, token, vocabulary_size));
  }
  return tokens;
}

class EvaluateCommand final : public Command {
 public:
  EvaluateCommand()
      : Command("evaluate", "tell the loss of a model on text, and its accuracy on benchmarks",
                "weft-model evaluate --load checkpoints --tasks hellaswag.jsonl") {}

  void declare(OptionSet& options) override {
    options.text("--data-path", data_path_,
                 "dataset (PREFIX of .bin and .idx) to take the loss of");
    options.text("--text", text_file_, "UTF-8 text to take the loss of, as one document");
    options.integer("--seq-length", seq_length_,
                    "tokens that the model reads at a time; default: its positions", 2);
    options.integer("--stride", stride_,
                    "tokens that a window predicts, and the next one begins later; default: "
                    "--seq-length, so that no token is read twice",
                    1);
    options.integer("--max-tokens", max_tokens_, "tokens of the dataset or text, at most", 2);
    options.texts("--tasks", task_files_,
                  "benchmarks: files with {\"context\", \"endings\", \"label\"} in each line");
    options.integer("--limit", limit_, "examples of each benchmark, at most", 1);
    options.text("--output", output_,
                 "file that gets the scores of each example, a JSON line each");
    options.choice("--format", format_, {{"text", Format::kText}, {"json", Format::kJson}},
                   "results for people, or a JSON object in a line for each");
    model_.declare(options);
  }

  void validate(OptionSet& options) const override {
    model_.validate(options);
    const int num_inputs = !data_path_.empty() + !text_file_.empty() + !task_files_.empty();
    if (num_inputs != 1) options.problem("give --data-path, --text or --tasks, one of them");
    if (!output_.empty() && task_files_.empty()) options.problem("--output belongs to --tasks");
    if (stride_ && seq_length_ && *stride_ > *seq_length_)
      options.problem("--stride must not be larger than --seq-length: tokens would be left out");
  }

  int run(const OptionSet&) override {
    if (!output_.empty()) check_output();
    const auto model = open_stored_model(model_.load);
    longest_ = longest_of(model->shape());
    if (!task_files_.empty()) {
      run_tasks(*model);
    } else {
      run_text(*model);
    }
    return static_cast<int>(ExitCode::kDone);
  }

 private:
  // Throws std::system_error for an output that cannot be written, before the work.
  void check_output() const {
    if (std::filesystem::is_directory(output_))
      throw std::system_error(std::make_error_code(std::errc::is_a_directory), output_);
    remove_file(OutputFile::create_part(output_).path());
  }

  int64_t longest_of(const ModelShape& shape) const {
    const int64_t longest = seq_length_.value_or(shape.max_positions);
    if (shape.has_position_table && longest > shape.max_positions) {
      throw UsageError(fmt::format("--seq-length {}: the model has positions for {}", longest,
                                   shape.max_positions));
    }
    if (stride_ && *stride_ > longest)
      throw UsageError(
          fmt::format("--stride {} is larger than the {} tokens of a window", *stride_, longest));
    return longest;
  }

  std::vector<Score> score(StoredModel& model, const std::vector<ScoreRequest>& requests) const {
    const auto backend = model_.create_backend();
    const InferenceWeights weights = weights_of(model, model_.type_on(*backend));
    LiveLine line;
    const auto show = [&](size_t done) {
      if (line.is_due()) line.show(fmt::format("scored {} of {}", done, requests.size()));
    };
    std::vector<Score> scores;
    if (have_shared_contexts(requests, weights.shape)) {
      scores = SharedContextScorer(*backend, weights, requests).score(show);
    } else {
      int64_t longest = 1;
      for (const ScoreRequest& request : requests)
        longest = std::max(longest, request.num_inputs());
      scores = Scorer(*backend, weights, longest).score(requests, show);
    }
    line.clear();
    return scores;
  }

  // A dataset needs no tokenizer: without one there are no bytes.
  void run_text(StoredModel& model) const {
    const bool is_text = !text_file_.empty();
    std::shared_ptr<const Vocabulary> vocabulary;
    if (is_text || model_.tokenizer.is_given() || !model.vocabulary().tokenizer.empty())
      vocabulary = vocabulary_of(model.vocabulary(), model.shape().vocab_size, model_.tokenizer);
    std::vector<int32_t> tokens;
    if (is_text) {
      Tokenizer(vocabulary, SpecialTokens::kToken).encode(checked_text(), tokens);
      tokens.resize(std::min(tokens.size(), static_cast<size_t>(max_tokens_)));
    } else {
      tokens = tokens_of_dataset(data_path_, max_tokens_, model.shape().vocab_size);
    }
    const auto prefix = static_cast<int32_t>(model.vocabulary().end_of_document);
    const int64_t stride = stride_.value_or(longest_);
    const auto windows = rolling_windows(tokens, longest_, stride, prefix);
    if (windows.empty())
      throw std::runtime_error((is_text ? text_file_ : data_path_) +
                               " has too few tokens to predict");
    double sum = 0;
    for (const Score& score : score(model, windows)) sum += score.log_likelihood;
    report_text(tokens, prefix, stride, sum, vocabulary.get());
  }

  std::string checked_text() const {
    std::string text = read_file(text_file_);
    const size_t valid = num_valid_utf8_bytes(text);
    if (valid == text.size()) return text;
    throw std::runtime_error(fmt::format("{}: byte {} is no UTF-8", text_file_, valid));
  }

  void report_text(const std::vector<int32_t>& tokens, int32_t prefix, int64_t stride, double sum,
                   const Vocabulary* vocabulary) const {
    const size_t first = prefix >= 0 ? 0 : 1;
    const auto num_predicted = static_cast<double>(tokens.size() - first);
    double num_bytes = 0;
    for (size_t i = first; vocabulary != nullptr && i < tokens.size(); ++i) {
      if (!vocabulary->is_special(tokens[i]))
        num_bytes += static_cast<double>(vocabulary->bytes(tokens[i]).size());
    }
    const double loss = -sum / num_predicted;
    const std::string& name = text_file_.empty() ? data_path_ : text_file_;
    Json result = {{"input", name},          {"tokens", tokens.size() - first},
                   {"seq_length", longest_}, {"stride", stride},
                   {"loss", loss},           {"perplexity", std::exp(loss)}};
    std::string bits;
    if (num_bytes > 0) {
      result["bytes"] = static_cast<int64_t>(num_bytes);
      result["bits_per_byte"] = -sum / num_bytes / std::log(2.0);
      bits = fmt::format(", {:.4f} bits per byte", result["bits_per_byte"].get<double>());
    }
    if (format_ == Format::kJson) return print_json(result);
    fmt::print("{}: loss {:.4f}, perplexity {:.2f}{} ({} tokens in windows of {}, stride {})\n",
               escape_message(name), loss, std::exp(loss), bits,
               grouped(static_cast<int64_t>(tokens.size() - first)), longest_, stride);
  }

  void run_tasks(StoredModel& model) const {
    Tokenizer tokenizer(
        vocabulary_of(model.vocabulary(), model.shape().vocab_size, model_.tokenizer),
        SpecialTokens::kToken);
    const auto prefix = static_cast<int32_t>(model.vocabulary().end_of_document);
    const TaskList list(task_files_, limit_, tokenizer, prefix, longest_);
    const auto results = list.judge(score(model, list.requests()));
    std::string lines;
    for (size_t t = 0; t < results.size(); ++t) {
      const Task& task = list.tasks()[t];
      for (size_t i = 0; i < results[t].size(); ++i)
        lines += line_of(task, i, task.examples[i], results[t][i]);
      report_task(task, summarise(results[t]));
    }
    if (!output_.empty()) write_file_atomically(output_, lines);
  }

  static std::string line_of(const Task& task, size_t number, const TaskExample& example,
                             const ExampleResult& result) {
    Json line = {{"task", task.name},
                 {"example", number},
                 {"label", example.label},
                 {"correct", result.is_correct},
                 {"correct_normalised", result.is_correct_normalised}};
    for (const Score& score : result.scores) {
      line["log_likelihoods"].push_back(score.log_likelihood);
      line["is_greedy"].push_back(score.is_greedy);
    }
    return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

  void report_task(const Task& task, const TaskResult& result) const {
    if (format_ == Format::kJson) {
      Json json = {{"task", task.name}, {"examples", result.num_examples}};
      for (const auto& [name, value] : named_numbers(task, result)) json[name] = value;
      return print_json(json);
    }
    const std::string other =
        task.is_continuation
            ? fmt::format("perplexity {:.2f}", result.perplexity)
            : fmt::format("normalised by length {:.4f} +- {:.4f}", result.accuracy_normalised,
                          result.accuracy_normalised_error);
    fmt::print("{}: accuracy {:.4f} +- {:.4f}, {} ({} examples)\n", escape_message(task.name),
               result.accuracy, result.accuracy_error, other, result.num_examples);
  }

  ModelOptions model_;
  std::string data_path_, text_file_, output_;
  std::vector<std::string> task_files_;
  std::optional<int64_t> seq_length_, stride_, limit_;
  int64_t max_tokens_ = int64_t{1} << 40;
  Format format_ = Format::kText;
  int64_t longest_ = 0;  // tokens that the model reads at a time
};

}  // namespace

std::unique_ptr<Command> make_evaluate_command() { return std::make_unique<EvaluateCommand>(); }

}  // namespace weft
