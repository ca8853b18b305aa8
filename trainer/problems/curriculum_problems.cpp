// The checks of curricula, by the length of sequences and by difficulty, and of what is counted in
// tokens.

#include "indexed_dataset/base/process/exit_code.h"
#include "trainer/problems/problem_list.h"

namespace weft {

namespace {

// Options that mean samples or tokens, where a curriculum makes tokens and samples grow apart.
void check_companions(const Config& c, ProblemList& p) {
  const bool reshapes = c.curriculum.mode == "reshape";
  p.add_if(!c.step_batch_size_schedule.empty(),
           "--step-batch-size-schedule counts tokens of whole sequences, and a curriculum shortens "
           "them: give --rampup-batch-size, which counts samples, or leave one of them out");
  p.add_if(reshapes && c.dataloader_type == "cyclic",
           "--curriculum-mode reshape takes all tokens of a sample one after the other, and "
           "--dataloader-type cyclic draws whole samples: give --curriculum-mode truncate");
  if (c.paths.blend_schedule.empty()) return;
  try {
    for (const BlendChange& change : resolve_data_paths(c.paths).changes) {
      p.add_if(!reshapes && change.from_tokens,
               "--blend-schedule {} has \"from_tokens\", and a truncating curriculum trains fewer "
               "tokens than the samples have: give \"from_samples\"",
               c.paths.blend_schedule);
      p.add_if(reshapes && change.from_samples,
               "--blend-schedule {} has \"from_samples\", and a reshaping curriculum makes several "
               "rows of a sample: give \"from_tokens\"",
               c.paths.blend_schedule);
    }
  } catch (const std::exception&) {
    // check_data() tells it.
  }
}

void check_lengths(const Config& c, ProblemList& p) {
  const int64_t tp = c.tensor_model_parallel_size;
  if (!c.shares_sequence()) return;
  const LengthCurriculum curriculum = c.length_curriculum();
  for (const LengthCurriculum::Stretch& stretch : curriculum.stretches()) {
    if (c.micro_batch_size * stretch.length % tp == 0) continue;
    p.add_if(true,
             "--sequence-parallel: --micro-batch-size {} times the {} tokens of the curriculum's "
             "sequences from iteration {} on is not a multiple of --tensor-model-parallel-size {}: "
             "change --curriculum-difficulty-step or --curriculum-min-difficulty, or leave "
             "--sequence-parallel out",
             c.micro_batch_size, stretch.length, stretch.first_iteration, tp);
    return;  // the first one is enough
  }
}

}  // namespace

void check_curriculum(Config& c, ProblemList& p) {
  const CurriculumOptions defaults, &given = c.curriculum;
  if (!c.has_curriculum()) {
    p.add_if(
        c.curriculum_learning,
        "--curriculum-learning needs --curriculum-schedule-type, or a --deepspeed_config whose "
        "curriculum_learning is enabled");
    p.add_if(given.mode != defaults.mode || given.min_difficulty != 0 ||
                 given.max_difficulty != 0 || given.total_step != 0 || !given.difficulty.empty() ||
                 !given.max_step.empty(),
             "options of a curriculum are given, but no --curriculum-schedule-type");
    c.curriculum = {};
    return;
  }
  if (c.seq_length < 1) return;  // this is told already
  try {
    c.length_curriculum();
  } catch (const UsageError& error) {
    p.add_if(true, "{}", error.what());
    c.curriculum = {};
    return;
  }
  check_companions(c, p);
  if (c.micro_batch_size > 0 && c.tensor_model_parallel_size > 0) check_lengths(c, p);
}

void check_metric_curriculum(Config& c, ProblemList& p) {
  if (c.curriculum_metrics.empty()) {
    p.add_if(c.data_efficiency_curriculum_learning,
             "--data-efficiency-curriculum-learning needs --curriculum-metrics, or a "
             "--deepspeed_config whose data_efficiency has curriculum_metrics that are enabled");
    p.add_if(c.curriculum_metrics_seed != Config().curriculum_metrics_seed,
             "--curriculum-metrics-seed needs --curriculum-metrics");
    return;
  }
  p.add_if(c.curriculum_metrics_seed < 0, "--curriculum-metrics-seed must not be negative (got {})",
           c.curriculum_metrics_seed);
  try {
    parse_curriculum_metrics(c.curriculum_metrics);
  } catch (const UsageError& error) {
    p.add_if(true, "{}", error.what());
    c.curriculum_metrics.clear();
    return;
  }
  p.add_if(
      c.dataloader_type == "cyclic",
      "--curriculum-metrics draws samples by difficulty, again and again, and --dataloader-type "
      "cyclic in an order of its own: give --dataloader-type single");
  p.add_if(!c.paths.blend_schedule.empty(),
           "--curriculum-metrics draws from all samples of a run, so --blend-schedule would mean "
           "nothing; leave one of them out");
  p.add_if(c.has_curriculum() && c.curriculum.mode == "reshape",
           "--curriculum-mode reshape takes all tokens of a sample one after the other, and "
           "--curriculum-metrics draws whole samples: give --curriculum-mode truncate");
}

}  // namespace weft
