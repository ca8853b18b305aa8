#include "trainer/log/banner.h"

#include <fmt/format.h>

#include "trainer/command_line/option_text.h"
#include "trainer/log/log_lines.h"
#include "trainer/problems/problems.h"

namespace weft {

namespace {

std::string batch_lines(const Config& config, const BatchSchedule& schedule) {
  std::string text;
  if (!config.step_batch_size_schedule.empty()) {
    text += fmt::format("will use step batch size schedule {} (tokens:size)\n",
                        config.step_batch_size_schedule);
  } else if (schedule.batch_size_changes()) {
    text += fmt::format(
        "will use batch size rampup starting from global batch size {} to global batch size {} with batch size increments {} over {} samples.\n",
        config.rampup_batch_size[0], config.global_batch(), config.rampup_batch_size[1],
        config.rampup_batch_size[2]);
  } else {
    text += fmt::format("setting number of micro-batches to constant {}\n",
                        schedule.num_micro_batches(0));
  }
  if (const LengthCurriculum& curriculum = schedule.curriculum(); curriculum.exists()) {
    const LengthCurriculum::Stretch& last = curriculum.stretches().back();
    text += fmt::format(
        "will use a sequence length curriculum ({}, {}) from {} to {} tokens, which iteration {} "
        "reaches\n",
        config.curriculum.schedule_type, config.curriculum.mode, curriculum.length(1), last.length,
        last.first_iteration);
    if (curriculum.reshapes()) {
      text +=
          "keeps no losses of samples: rows of --curriculum-mode reshape are parts of samples\n";
    }
  }
  if (config.train_samples || config.train_tokens)
    text += fmt::format("setting training iterations to {}\n", schedule.num_iterations());
  return text;
}

// What differs from the defaults, as a command line of one flag in a line.
std::string changed_arguments(const Config& config) {
  const auto given = resolved_options(config), usual = resolved_options(Config());
  std::string text;
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].second != usual[i].second)
      text += fmt::format("  {} = {}\n", given[i].first, given[i].second);
  }
  return text;
}

}  // namespace

std::string start_banner(const Config& config, const std::vector<std::string>& notes,
                         const BatchSchedule& schedule, const RunVocabulary& vocabulary,
                         bool with_arguments) {
  std::string text = fmt::format(
      "using world size: {}, data-parallel-size: {}, tensor-model-parallel size: {}, pipeline-model-parallel size: {} \n",
      config.world_size, config.data_parallel_size(), config.tensor_model_parallel_size,
      config.pipeline_model_parallel_size);
  if (config.bf16) text += "accumulate and all-reduce gradients in fp32 for bfloat16 data type.\n";
  text += fmt::format("using {} for parameters ...\n", config.fp16   ? "float16"
                                                       : config.bf16 ? "bfloat16"
                                                                     : "float32");
  text += with_arguments ? arguments_banner(resolved_options(config)) : changed_arguments(config);
  for (const std::string& warning : warnings_of(config)) text += "WARNING: " + warning + "\n";
  for (const std::string& note : notes) text += " > " + note + "\n";
  text += batch_lines(config, schedule);
  const int64_t padded = config.padded_vocab_size(vocabulary.num_tokens);
  text +=
      fmt::format(" > vocabulary of {} tokens from {}\n", vocabulary.num_tokens, vocabulary.source);
  text += fmt::format(" > documents end with token {}, {}\n", vocabulary.end_of_document,
                      vocabulary.end_of_document_source);
  text += fmt::format(" > padded vocab (size: {}) with {} dummy tokens (new size: {})\n",
                      vocabulary.num_tokens, padded - vocabulary.num_tokens, padded);
  text += fmt::format(
      "> initialized tensor model parallel with size {}\n"
      "> initialized pipeline model parallel with size {}\n",
      config.tensor_model_parallel_size, config.pipeline_model_parallel_size);
  text += fmt::format("> setting random seeds to {} ...\n", config.seed);
  return text;
}

}  // namespace weft
