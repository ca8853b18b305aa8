// The model of a run between two steps: its accuracy on benchmarks (--eval-tasks) and texts that it
// writes (--sample-prompt). It computes with the trainer's weights where they lie, on a backend of
// its own, so that nothing of training is touched but the time.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trainer/evaluate/task_list.h"
#include "trainer/generate/text_generator.h"
#include "trainer/loop/run.h"
#include "trainer/plan/dry_run.h"

namespace weft {

// Returns the texts of --eval-tasks and --sample-prompt as the model's tokens. Throws for files and
// prompts that cannot serve, and where the run's tokenizer cannot be found: before the model is
// built.
RunTexts read_run_texts(const Config& config, const RunVocabulary& vocabulary);

// Returns the device memory that --eval-tasks takes, as a LiveModel allocates it; 0 without them,
// and where no dataset is named, whose tokenizer they need. Throws as read_run_texts().
int64_t eval_task_bytes(const Config& config, const ModelShape& shape,
                        const RunVocabulary& vocabulary, const WorkspaceBytes& workspace_bytes);

class LiveModel {
 public:
  // Allocates all memory. `run` outlives this.
  explicit LiveModel(Run& run);

  // Whether one of them is due after this iteration.
  bool is_due(int64_t iteration) const;
  // Logs the accuracies that are due, which data-parallel ranks compute together, and the texts,
  // which the last rank writes. All ranks call it. Returns false if a signal cut the benchmarks
  // short; then nothing of them is logged.
  bool log_what_is_due();

 private:
  InferenceWeights weights() const;
  bool evaluate_tasks();
  void generate_samples();
  // Scores the requests of this rank, and returns the scores of all; nothing after a signal.
  std::optional<std::vector<Score>> score_together();

  Run& run_;
  // A backend has one workspace, so each has its own.
  std::unique_ptr<Backend> scorers_backend_, generators_backend_;
  std::optional<Scorer> scorer_;
  std::optional<TextGenerator> generator_;
};

}  // namespace weft
