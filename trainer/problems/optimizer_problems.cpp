// The checks of the optimizer and of the learning rate's schedule.
#include <utility>

#include "trainer/config/lr_schedule.h"
#include "trainer/problems/problem_list.h"

namespace weft {

namespace {

bool product_fits(int64_t a, int64_t b) {
  int64_t product = 0;
  return !__builtin_mul_overflow(a, b, &product);
}

void check_units_of_schedule(const Config& c, ProblemList& p) {
  if (c.train_iters) {
    p.add_if(c.lr_decay_samples.has_value(),
             "--lr-decay-samples belongs to --train-samples; give --lr-decay-iters");
    p.add_if(c.lr_warmup_samples.has_value(),
             "--lr-warmup-samples belongs to --train-samples; give --lr-warmup-iters");
  } else if (c.train_samples) {
    p.add_if(c.lr_decay_iters.has_value(),
             "--lr-decay-iters belongs to --train-iters; give --lr-decay-samples");
    p.add_if(c.lr_warmup_iters.has_value(),
             "--lr-warmup-iters belongs to --train-iters; give --lr-warmup-samples");
  }
  p.add_if(c.lr_warmup_fraction && c.lr_warmup_iters.value_or(0) != 0,
           "--lr-warmup-fraction {} and --lr-warmup-iters {} exclude each other",
           c.lr_warmup_fraction.value_or(0), c.lr_warmup_iters.value_or(0));
  p.add_if(c.lr_warmup_fraction && c.lr_warmup_samples.value_or(0) != 0,
           "--lr-warmup-fraction {} and --lr-warmup-samples {} exclude each other",
           c.lr_warmup_fraction.value_or(0), c.lr_warmup_samples.value_or(0));
}

// A schedule that is counted in tokens.
void check_tokens_of_schedule(const Config& c, ProblemList& p) {
  p.positive(c.lr_decay_tokens, "--lr-decay-tokens");
  p.positive(c.lr_warmup_tokens, "--lr-warmup-tokens");
  p.add_if(c.lr_warmup_tokens && !c.lr_decay_tokens,
           "--lr-warmup-tokens {} needs --lr-decay-tokens", c.lr_warmup_tokens.value_or(0));
  p.add_if(c.lr_tokens_as_deepspeed && !c.lr_decay_tokens,
           "--lr-tokens-as-deepspeed needs --lr-decay-tokens");
  const bool has_other = c.lr_warmup_iters.value_or(0) != 0 ||
                         c.lr_warmup_samples.value_or(0) != 0 || c.lr_warmup_fraction;
  p.add_if(c.lr_warmup_tokens && has_other,
           "--lr-warmup-tokens excludes --lr-warmup-iters, --lr-warmup-samples and "
           "--lr-warmup-fraction");
  p.add_if(c.lr_warmup_tokens && c.lr_decay_tokens && *c.lr_warmup_tokens >= *c.lr_decay_tokens,
           "--lr-warmup-tokens {} must be less than --lr-decay-tokens {}",
           c.lr_warmup_tokens.value_or(0), c.lr_decay_tokens.value_or(0));
  p.add_if(c.lr_decay_tokens && c.lr_decay_style == LrDecayStyle::kInverseSquareRoot,
           "--lr-decay-tokens goes with --lr-decay-style linear or cosine");
}

}  // namespace

void check_optimizer(const Config& c, ProblemList& p) {
  p.add_if(!(c.lr > 0), "--lr is required and must be positive (got {})", c.lr);
  p.add_if(c.min_lr < 0 || c.min_lr > c.lr, "--min-lr {} must lie between 0 and --lr {}", c.min_lr,
           c.lr);
  p.positive(c.lr_decay_iters, "--lr-decay-iters");
  p.positive(c.lr_decay_samples, "--lr-decay-samples");
  p.add_if(c.lr_warmup_iters.value_or(0) < 0, "--lr-warmup-iters must be at least 0 (got {})",
           c.lr_warmup_iters.value_or(0));
  p.add_if(c.lr_warmup_samples.value_or(0) < 0, "--lr-warmup-samples must be at least 0 (got {})",
           c.lr_warmup_samples.value_or(0));
  const double fraction = c.lr_warmup_fraction.value_or(0);
  p.add_if(fraction < 0 || fraction >= 1, "--lr-warmup-fraction must be in [0, 1) (got {})",
           fraction);
  check_units_of_schedule(c, p);
  check_tokens_of_schedule(c, p);
  bool fits = true;
  for (const auto& [iterations, flag] : {std::pair{c.train_iters, "--train-iters"},
                                         {c.lr_decay_iters, "--lr-decay-iters"},
                                         {c.lr_warmup_iters, "--lr-warmup-iters"}}) {
    if (product_fits(iterations.value_or(0), c.global_batch())) continue;
    fits = false;
    p.add_if(true, "{} {} times --global-batch-size {} does not fit into 64 bits", flag,
             iterations.value_or(0), c.global_batch());
  }
  if (fits && c.train_iters.has_value() != c.train_samples.has_value()) {
    const LrSettings settings = lr_settings(c);
    p.add_if(settings.warmup_steps >= static_cast<double>(settings.decay_steps) &&
                 settings.decay_steps > 0,
             "learning rate warm-up of {} samples must be shorter than its decay of {} samples "
             "(--lr-warmup-*, --lr-decay-*)",
             settings.warmup_steps, settings.decay_steps);
  }
  const auto is_beta = [](double value) { return value >= 0 && value < 1; };
  p.add_if(!is_beta(c.adam_beta1), "--adam-beta1 must be in [0, 1) (got {})", c.adam_beta1);
  p.add_if(!is_beta(c.adam_beta2), "--adam-beta2 must be in [0, 1) (got {})", c.adam_beta2);
  p.add_if(
      !(static_cast<float>(c.adam_eps) > 0),
      "--adam-eps must be positive and no smaller than 1.4e-45, the least number of fp32 (got {})",
      c.adam_eps);
  p.add_if(c.weight_decay < 0, "--weight-decay must be at least 0 (got {})", c.weight_decay);
  p.add_if(c.clip_grad < 0, "--clip-grad must be at least 0 (got {})", c.clip_grad);
  p.add_if(c.seed < 0, "--seed must be at least 0 (got {})", c.seed);
  p.add_if(c.override_lr_scheduler && c.use_checkpoint_lr_scheduler,
           "--override-lr-scheduler and --use-checkpoint-lr-scheduler exclude each other");
}

}  // namespace weft
