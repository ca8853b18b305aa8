// The checks of the optimizer and of the learning rate's schedule.
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
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
    p.add_if(c.lr_warmup_samples.value_or(0) != 0,
             "--lr-warmup-samples belongs to --train-samples; give --lr-warmup-iters");
    p.add_if(c.lr_wsd_decay_samples.has_value(),
             "--lr-wsd-decay-samples belongs to --train-samples; give --lr-wsd-decay-iters");
  } else if (c.train_samples) {
    p.add_if(c.lr_decay_iters.has_value(),
             "--lr-decay-iters belongs to --train-iters; give --lr-decay-samples");
    p.add_if(c.lr_warmup_iters.value_or(0) != 0,
             "--lr-warmup-iters belongs to --train-iters; give --lr-warmup-samples");
    p.add_if(c.lr_wsd_decay_iters.has_value(),
             "--lr-wsd-decay-iters belongs to --train-iters; give --lr-wsd-decay-samples");
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
  p.add_if(c.lr_decay_tokens && (c.lr_decay_style == LrDecayStyle::kInverseSquareRoot ||
                                 c.lr_decay_style == LrDecayStyle::kWsd),
           "--lr-decay-tokens goes with --lr-decay-style linear or cosine");
}

// The last part of WSD lies behind the warm-up and within the decay.
void check_wsd(const Config& c, ProblemList& p) {
  const bool is_wsd = c.lr_decay_style == LrDecayStyle::kWsd;
  const auto& length = c.train_iters ? c.lr_wsd_decay_iters : c.lr_wsd_decay_samples;
  const char* const flag = c.train_iters ? "--lr-wsd-decay-iters" : "--lr-wsd-decay-samples";
  p.add_if(is_wsd && !length, "--lr-decay-style WSD needs {}, the length of its last part", flag);
  p.add_if(!is_wsd && length, "{} {} needs --lr-decay-style WSD", flag, length.value_or(0));
  p.positive(length, flag);
  const LrSettings settings = lr_settings(c);
  p.add_if(
      is_wsd && length.value_or(0) > 0 &&
          static_cast<double>(settings.wsd_decay_steps) >
              static_cast<double>(settings.decay_steps) - settings.warmup_steps,
      "{} {} is longer than what the warm-up leaves of the decay (--lr-warmup-*, --lr-decay-*)",
      flag, length.value_or(0));
}

void check_weight_decay(const Config& c, ProblemList& p) {
  const bool is_constant = c.weight_decay_incr_style == WeightDecayStyle::kConstant;
  p.add_if(is_constant && (c.start_weight_decay || c.end_weight_decay),
           "--start-weight-decay and --end-weight-decay need --weight-decay-incr-style linear or "
           "cosine");
  p.add_if(!is_constant && !(c.start_weight_decay && c.end_weight_decay),
           "--weight-decay-incr-style {} needs --start-weight-decay and --end-weight-decay",
           name_of(c.weight_decay_incr_style));
  p.add_if(c.first_weight_decay() < 0 || c.last_weight_decay() < c.first_weight_decay(),
           "--start-weight-decay {} must be at least 0, and --end-weight-decay {} no smaller",
           c.first_weight_decay(), c.last_weight_decay());
}

void check_muon(const Config& c, ProblemList& p) {
  if (!c.uses_muon()) {
    p.add_if(c.optimizer != "adam",
             "--optimizer {} is not supported: adam (AdamW), muon and dist_muon are", c.optimizer);
    return;
  }
  try {
    c.muon();
  } catch (const UsageError& error) {
    p.add_if(true, "{}", error.what());
  }
  p.add_if(!(c.muon_momentum >= 0 && c.muon_momentum < 1),
           "--muon-momentum must be in [0, 1) (got {})", c.muon_momentum);
  p.add_if(!(c.muon_extra_scale_factor > 0), "--muon-extra-scale-factor must be positive (got {})",
           c.muon_extra_scale_factor);
  p.add_if(c.muon_fp32_matmul_prec != "medium" && c.muon_fp32_matmul_prec != "high",
           "--muon-fp32-matmul-prec {} is not supported: medium (bfloat16) and high (fp32) are",
           c.muon_fp32_matmul_prec);
  p.add_if(c.muon_tp_mode != "blockwise" && c.muon_tp_mode != "duplicated",
           "--muon-tp-mode {} is not supported: blockwise and duplicated are; the latter has its "
           "results",
           c.muon_tp_mode);
  p.add_if(c.muon_scalar_optimizer != "adam",
           "--muon-scalar-optimizer {} is not supported: only adam is", c.muon_scalar_optimizer);
  p.add_if(c.has_bf16_moments(),
           "--optimizer {} keeps its momentum in fp32: leave out --bf16-optimizer-state, "
           "--exp-avg-dtype and --exp-avg-sq-dtype",
           c.optimizer);
}

}  // namespace

void check_optimizer(const Config& c, ProblemList& p) {
  check_muon(c, p);
  check_weight_decay(c, p);
  p.add_if(!(c.lr > 0), "--lr is required and must be positive (got {})", c.lr);
  p.add_if(c.min_lr < 0 || c.min_lr > c.lr, "--min-lr {} must lie between 0 and --lr {}", c.min_lr,
           c.lr);
  p.positive(c.lr_decay_iters, "--lr-decay-iters");
  p.positive(c.lr_decay_samples, "--lr-decay-samples");
  p.add_if(c.lr_warmup_iters.value_or(0) < 0, "--lr-warmup-iters must be at least 0 (got {})",
           c.lr_warmup_iters.value_or(0));
  p.add_if(c.lr_warmup_samples.value_or(0) < 0, "--lr-warmup-samples must be at least 0 (got {})",
           c.lr_warmup_samples.value_or(0));
  p.add_if(c.lr_warmup_init < 0 || (c.lr > 0 && c.lr_warmup_init > c.lr),
           "--lr-warmup-init {} must lie between 0 and --lr {}", c.lr_warmup_init, c.lr);
  p.add_if(c.decoupled_lr && !(*c.decoupled_lr > 0), "--decoupled-lr must be positive (got {})",
           c.decoupled_lr.value_or(0));
  p.add_if(c.decoupled_min_lr && !c.decoupled_lr, "--decoupled-min-lr {} needs --decoupled-lr",
           c.decoupled_min_lr.value_or(0));
  p.add_if(c.decoupled_lr && (c.decoupled_min_lr.value_or(c.min_lr) < 0 ||
                              c.decoupled_min_lr.value_or(c.min_lr) > *c.decoupled_lr),
           "--decoupled-min-lr {} must lie between 0 and --decoupled-lr {}",
           c.decoupled_min_lr.value_or(c.min_lr), c.decoupled_lr.value_or(0));
  const double fraction = c.lr_warmup_fraction.value_or(0);
  p.add_if(fraction < 0 || fraction >= 1, "--lr-warmup-fraction must be in [0, 1) (got {})",
           fraction);
  check_units_of_schedule(c, p);
  check_tokens_of_schedule(c, p);
  bool fits = true;
  for (const auto& [iterations, flag] : {std::pair{c.train_iters, "--train-iters"},
                                         {c.lr_decay_iters, "--lr-decay-iters"},
                                         {c.lr_warmup_iters, "--lr-warmup-iters"},
                                         {c.lr_wsd_decay_iters, "--lr-wsd-decay-iters"}}) {
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
    check_wsd(c, p);
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
