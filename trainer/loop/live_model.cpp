#include "trainer/loop/live_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/stop_signal.h"
#include "kernels/recording_backend.h"
#include "trainer/generate/text_tokenizer.h"
#include "trainer/plan/train_setup.h"
#include "trainer/ranks/agreement.h"

namespace weft {

namespace {

// Ranks look for a signal after so many batches of each: about a second of a GPU.
constexpr size_t kRoundBatches = 16;
constexpr size_t kScoreBytes = sizeof(double) + 1;

std::shared_ptr<const Vocabulary> vocabulary_of_run(const Config& config,
                                                    const RunVocabulary& known) {
  TokenizerOptions given;
  if (!config.vocab_file.empty() && !config.merge_file.empty()) {
    given.vocab_file = config.vocab_file;
    given.merge_file = config.merge_file;
  }
  try {
    return vocabulary_of(known, known.num_tokens, given);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--eval-tasks and --sample-prompt need the data's tokenizer: {}",
                                 error.what()));
  }
}

std::string bytes_of(const std::vector<Score>& scores) {
  std::string bytes(scores.size() * kScoreBytes, '\0');
  for (size_t i = 0; i < scores.size(); ++i) {
    char* const to = &bytes[i * kScoreBytes];
    std::memcpy(to, &scores[i].log_likelihood, sizeof(double));
    to[sizeof(double)] = scores[i].is_greedy ? 1 : 0;
  }
  return bytes;
}

Score score_at(const std::string& bytes, size_t i) {
  if ((i + 1) * kScoreBytes > bytes.size())
    throw std::runtime_error("--eval-tasks: ranks have read different files");
  Score score;
  std::memcpy(&score.log_likelihood, &bytes[i * kScoreBytes], sizeof(double));
  score.is_greedy = bytes[i * kScoreBytes + sizeof(double)] != 0;
  return score;
}

// Scores are computed for as many tokens at a time as training is planned for, or fewer.
int64_t batch_tokens(const ModelShape& shape) {
  return std::min(Scorer::kBatchTokens, shape.micro_batch_size * shape.seq_length);
}

bool is_multiple(int64_t iteration, const std::optional<int64_t>& interval) {
  return interval && iteration % *interval == 0;
}

}  // namespace

RunTexts read_run_texts(const Config& config, const RunVocabulary& vocabulary) {
  RunTexts texts;
  if (config.eval_tasks.empty() && config.sample_prompt.empty()) return texts;
  texts.vocabulary = vocabulary_of_run(config, vocabulary);
  if (!config.eval_tasks.empty()) {
    Tokenizer tokenizer(texts.vocabulary, SpecialTokens::kToken);
    texts.tasks.emplace(config.eval_tasks, std::nullopt, tokenizer,
                        static_cast<int32_t>(vocabulary.end_of_document), config.positions());
  }
  for (const std::string& prompt : config.sample_prompt)
    texts.prompts.push_back({"--sample-prompt", prompt});
  tokenize_prompts(texts.prompts, texts.vocabulary,
                   config.has_position_table() ? config.positions() : kMostPromptTokens);
  return texts;
}

// A scorer without a device tells what it takes, and which operations a batch of the longest
// requests has.
int64_t eval_task_bytes(const Config& config, const ModelShape& shape,
                        const RunVocabulary& vocabulary, const WorkspaceBytes& workspace_bytes) {
  if (config.eval_tasks.empty() || config.plans_without_data()) return 0;
  const RunTexts texts = read_run_texts(config, vocabulary);
  const int64_t longest = texts.tasks->longest_request();
  RecordingBackend recorder;
  InferenceWeights weights{.shape = shape, .end_of_document = vocabulary.end_of_document};
  weights.shape.fp8.reset();
  const int64_t num_weights = ParameterTable(weights.shape, {}).arena_elements();
  weights.shared = Tensor(recorder.allocate(num_weights * size_bytes(shape.dtype), Memory::kDevice),
                          shape.dtype, {num_weights});
  Scorer scorer(recorder, weights, longest, batch_tokens(shape));
  recorder.clear();
  const ScoreRequest request{std::vector<int32_t>(static_cast<size_t>(longest) + 1)};
  scorer.score(std::vector<ScoreRequest>(scorer.batch_size(), request));
  return scorer.device_bytes() + workspace_bytes(recorder.operations());
}

LiveModel::LiveModel(Run& run) : run_(run) {
  HostGroup& ranks = run.start.ranks;
  const auto new_backend = [&] {
    return create_backend(run.device->backend->kind(), local_rank(ranks));
  };
  const ModelShape& shape = run.model.trainer->shape();
  int64_t num_bytes = 0;
  if (run.texts.tasks) {
    scorers_backend_ = new_backend();
    scorer_.emplace(*scorers_backend_, weights(), run.texts.tasks->longest_request(),
                    batch_tokens(shape));
    num_bytes += scorer_->device_bytes();
  }
  if (!run.texts.prompts.empty() && ranks.rank() + 1 == ranks.size()) {
    generators_backend_ = new_backend();
    generator_.emplace(*generators_backend_, weights(), *run.texts.vocabulary, run.texts.prompts,
                       GenerateOptions());
    num_bytes += generator_->device_bytes();
  }
  run.log->print(fmt::format(" > --eval-tasks and --sample-prompt: {:.2f} MiB more memory\n",
                             to_mib(num_bytes)));
}

// The products are those of the weights' type where training's are fp8.
InferenceWeights LiveModel::weights() const {
  const Trainer& trainer = *run_.model.trainer;
  InferenceWeights weights{.shape = trainer.shape(),
                           .end_of_document = run_.inputs.vocabulary.end_of_document,
                           .shared = trainer.weights()};
  weights.shape.fp8.reset();
  return weights;
}

bool LiveModel::is_due(int64_t iteration) const {
  const Config& config = run_.start.config;
  return is_multiple(iteration, config.eval_tasks_interval) ||
         is_multiple(iteration, config.sample_interval);
}

bool LiveModel::log_what_is_due() {
  const Config& config = run_.start.config;
  const int64_t iteration = run_.model.iteration();
  const RunLog::Pause pause(*run_.log);
  const FlightRecorder::Scope scope(run_.device->groups.recorder_of_own_work(),
                                    "benchmarks and samples");
  run_.model.trainer->finish_gathering();
  if (is_multiple(iteration, config.eval_tasks_interval) && !evaluate_tasks()) return false;
  if (is_multiple(iteration, config.sample_interval)) generate_samples();
  return true;
}

bool LiveModel::evaluate_tasks() {
  const auto scores = score_together();
  if (!scores) return false;
  const TaskList& list = *run_.texts.tasks;
  const auto results = list.judge(*scores);
  for (size_t i = 0; i < results.size(); ++i) {
    const TaskResult result = summarise(results[i]);
    run_.log->on_task({.task = list.tasks()[i].name,
                       .num_examples = result.num_examples,
                       .numbers = named_numbers(list.tasks()[i], result),
                       .iteration = run_.model.iteration(),
                       .consumed_samples = run_.model.consumed_samples()});
  }
  return true;
}

// Ranks take requests of similar lengths in turn, the longest first.
std::optional<std::vector<Score>> LiveModel::score_together() {
  HostGroup& ranks = run_.start.ranks;
  const auto rank = static_cast<size_t>(ranks.rank()),
             num_ranks = static_cast<size_t>(ranks.size());
  const std::vector<ScoreRequest>& requests = run_.texts.tasks->requests();
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return requests[a].num_inputs() > requests[b].num_inputs();
  });
  std::vector<Score> own;
  const size_t round = kRoundBatches * scorer_->batch_size() * num_ranks;
  for (size_t first = 0; first < order.size(); first += round) {
    int64_t signal[] = {stop_signal()};
    ranks.max(signal);
    if (signal[0] != 0) return std::nullopt;
    std::vector<ScoreRequest> share;
    for (size_t i = first + rank; i < std::min(order.size(), first + round); i += num_ranks)
      share.push_back(requests[order[i]]);
    const std::vector<Score> scores = scorer_->score(share);
    own.insert(own.end(), scores.begin(), scores.end());
  }
  const std::vector<std::string> by_rank = ranks.all_gather(bytes_of(own));
  std::vector<Score> scores(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    scores[order[i]] = score_at(by_rank[i % num_ranks], i / num_ranks);
  return scores;
}

// The others wait, so that the time of their next step is its own.
void LiveModel::generate_samples() {
  if (generator_) {
    generator_->generate({.on_text = [this](size_t i, const GeneratedText& text) {
      run_.log->on_sample({.prompt = run_.texts.prompts[i].text,
                           .text = text.text,
                           .iteration = run_.model.iteration(),
                           .number = i + 1});
    }});
  }
  run_.start.ranks.all_gather("");
}

}  // namespace weft
