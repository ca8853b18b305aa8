// The checks of a configuration. Every message names the flags and both values, because a silently
// wrong shape costs days (BigScience's "104B" model was a 58B one: a stale --ffn-hidden-size).
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <stdexcept>

#include "indexed_dataset/samples/split.h"
#include "trainer/config/config.h"
#include "trainer/config/lr_schedule.h"

namespace weft {

namespace {

class Problems {
 public:
  template <typename... Args>
  void add_if(bool wrong, fmt::format_string<Args...> format, Args&&... args) {
    if (wrong) list.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  void required(int64_t value, const char* flag) {
    add_if(value <= 0, "{} is required and must be positive (got {})", flag, value);
  }
  void positive(const std::optional<int64_t>& value, const char* flag) {
    add_if(value && *value <= 0, "{} must be positive (got {})", flag, value.value_or(0));
  }
  void at_most(int64_t value, int64_t limit, const char* flag) {
    add_if(value > limit, "{} {} is beyond the limit of {}", flag, value, limit);
  }
  std::vector<std::string> list;
};

bool product_fits(int64_t a, int64_t b) {
  int64_t product = 0;
  return !__builtin_mul_overflow(a, b, &product);
}

// These limits are far above anything that can be trained. Below them no size, count or offset
// overflows.
void check_limits(const Config& c, Problems& p) {
  constexpr int64_t kWidth = 1 << 24, kCount = std::numeric_limits<int32_t>::max();
  const size_t before = p.list.size();
  p.at_most(c.num_layers, 1 << 16, "--num-layers");
  p.at_most(c.hidden_size, kWidth, "--hidden-size");
  p.at_most(c.num_attention_heads, kWidth, "--num-attention-heads");
  p.at_most(c.kv_channels.value_or(0), kWidth, "--kv-channels");
  p.at_most(c.ffn_hidden_size.value_or(0), kWidth, "--ffn-hidden-size");
  p.at_most(c.seq_length, kCount, "--seq-length");
  p.at_most(c.max_position_embeddings.value_or(0), kCount, "--max-position-embeddings");
  p.at_most(c.vocab_size.value_or(0), kCount, "--vocab-size");
  p.at_most(c.pad_vocab_size_to.value_or(0), kCount, "--pad-vocab-size-to");
  p.at_most(c.make_vocab_size_divisible_by, kCount, "--make-vocab-size-divisible-by");
  p.at_most(c.micro_batch_size, kCount, "--micro-batch-size");
  p.at_most(c.global_batch_size.value_or(0), kCount, "--global-batch-size");
  if (p.list.size() != before || c.num_attention_heads <= 0) return;
  const auto wide = [](int64_t value) { return static_cast<double>(value); };
  const double L = wide(c.num_layers), C = wide(c.hidden_size), F = wide(c.ffn_size()),
               A = wide(c.num_attention_heads) * wide(c.head_size()), V = wide(kCount),
               N = wide(c.micro_batch_size) * wide(c.seq_length);
  const double bytes =
      18 * (L * (4 * A + 2 * F + 9) * C + 2 * V * C) + 4 * N * (L * (5 * C + 4 * A + 2 * F) + V);
  p.add_if(
      bytes > 9e18,
      "the model or its micro-batch is too large to be counted in bytes; "
      "check --num-layers {}, --hidden-size {}, --ffn-hidden-size {}, --micro-batch-size {} and --seq-length {}",
      c.num_layers, c.hidden_size, c.ffn_size(), c.micro_batch_size, c.seq_length);
}

void check_shape(const Config& c, Problems& p) {
  p.required(c.num_layers, "--num-layers");
  p.required(c.hidden_size, "--hidden-size");
  p.required(c.num_attention_heads, "--num-attention-heads");
  p.required(c.seq_length, "--seq-length");
  p.positive(c.ffn_hidden_size, "--ffn-hidden-size");
  p.positive(c.kv_channels, "--kv-channels");
  p.positive(c.vocab_size, "--vocab-size");
  p.positive(c.pad_vocab_size_to, "--pad-vocab-size-to");
  p.positive(c.make_vocab_size_divisible_by, "--make-vocab-size-divisible-by");
  p.add_if(
      !c.kv_channels && c.num_attention_heads > 0 && c.hidden_size % c.num_attention_heads != 0,
      "--hidden-size {} is not a multiple of --num-attention-heads {}; "
      "choose sizes that divide, or give --kv-channels",
      c.hidden_size, c.num_attention_heads);
  p.add_if(!c.max_position_embeddings,
           "--max-position-embeddings is required (usually --seq-length, {})", c.seq_length);
  p.add_if(c.max_position_embeddings && *c.max_position_embeddings < c.seq_length,
           "--max-position-embeddings {} is smaller than --seq-length {}",
           c.max_position_embeddings.value_or(0), c.seq_length);
  p.add_if(c.pad_vocab_size_to && c.make_vocab_size_divisible_by > 0 &&
               *c.pad_vocab_size_to % c.make_vocab_size_divisible_by != 0,
           "--pad-vocab-size-to {} is not a multiple of --make-vocab-size-divisible-by {}",
           c.pad_vocab_size_to.value_or(0), c.make_vocab_size_divisible_by);
  p.add_if(c.pad_vocab_size_to && c.vocab_size && *c.pad_vocab_size_to < *c.vocab_size,
           "--pad-vocab-size-to {} is smaller than --vocab-size {}",
           c.pad_vocab_size_to.value_or(0), c.vocab_size.value_or(0));
  p.add_if(!(c.layernorm_epsilon > 0), "--layernorm-epsilon must be positive (got {})",
           c.layernorm_epsilon);
  p.add_if(!(c.init_method_std > 0), "--init-method-std must be positive (got {})",
           c.init_method_std);
  const auto is_dropout = [](float value) { return value >= 0 && value < 1; };
  p.add_if(!is_dropout(c.attention_dropout), "--attention-dropout must be in [0, 1) (got {})",
           c.attention_dropout);
  p.add_if(!is_dropout(c.hidden_dropout), "--hidden-dropout must be in [0, 1) (got {})",
           c.hidden_dropout);
}

void check_rampup(const Config& c, Problems& p) {
  const auto& rampup = c.rampup_batch_size;
  if (rampup.empty()) return;
  if (rampup.size() != 3) {
    p.add_if(true, "--rampup-batch-size takes START INCREMENT SAMPLES (got {} values)",
             rampup.size());
    return;
  }
  const int64_t start = rampup[0], increment = rampup[1], samples = rampup[2],
                full = c.global_batch();
  p.add_if(!c.train_samples, "--rampup-batch-size needs --train-samples (sample-based training)");
  if (start <= 0 || increment <= 0 || samples < 0) {
    p.add_if(
        true,
        "--rampup-batch-size {} {} {}: start and increment must be positive, samples at least 0",
        start, increment, samples);
    return;
  }
  if (start >= full || (full - start) % increment != 0) {
    p.add_if(
        true,
        "--rampup-batch-size {} {} {}: "
        "from start {} to --global-batch-size {} there must be a whole number of increments of {}",
        start, increment, samples, start, full, increment);
    return;
  }
  if (c.micro_batch_size <= 0) return;
  // Where these two divide, all batches between them do.
  for (const int64_t batch : {start, start + increment}) {
    p.add_if(batch % c.micro_batch_size != 0,
             "--rampup-batch-size {} {} {} reaches a batch of {}, "
             "not a multiple of --micro-batch-size {}",
             start, increment, samples, batch, c.micro_batch_size);
  }
}

void check_duration(const Config& c, Problems& p) {
  p.required(c.micro_batch_size, "--micro-batch-size");
  p.positive(c.global_batch_size, "--global-batch-size");
  p.positive(c.train_iters, "--train-iters");
  p.positive(c.train_samples, "--train-samples");
  p.positive(c.exit_interval, "--exit-interval");
  p.add_if(
      c.global_batch_size && c.micro_batch_size > 0 &&
          *c.global_batch_size % c.micro_batch_size != 0,
      "--global-batch-size {} is not a multiple of --micro-batch-size {} times data-parallel size 1",
      c.global_batch_size.value_or(0), c.micro_batch_size);
  p.add_if(!c.train_iters && !c.train_samples,
           "one of --train-iters and --train-samples is required");
  p.add_if(c.train_iters && c.train_samples,
           "--train-iters {} and --train-samples {} exclude each other", c.train_iters.value_or(0),
           c.train_samples.value_or(0));
  const int64_t first_batch =
      c.rampup_batch_size.empty() ? c.global_batch() : c.rampup_batch_size[0];
  p.add_if(c.train_samples.value_or(0) > 0 && *c.train_samples < first_batch,
           "--train-samples {} is less than one batch of {}: nothing would be trained",
           c.train_samples.value_or(0), first_batch);
  p.add_if(c.exit_duration_in_mins && !(*c.exit_duration_in_mins > 0),
           "--exit-duration-in-mins must be positive (got {})",
           c.exit_duration_in_mins.value_or(0));
  p.add_if(c.eval_iters < 0, "--eval-iters must be at least 0 (got {})", c.eval_iters);
  p.positive(c.eval_interval, "--eval-interval");
  check_rampup(c, p);
}

void check_units_of_schedule(const Config& c, Problems& p) {
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

void check_optimizer(const Config& c, Problems& p) {
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
  const auto is_beta = [](float value) { return value >= 0 && value < 1; };
  p.add_if(!is_beta(c.adam_beta1), "--adam-beta1 must be in [0, 1) (got {})", c.adam_beta1);
  p.add_if(!is_beta(c.adam_beta2), "--adam-beta2 must be in [0, 1) (got {})", c.adam_beta2);
  p.add_if(!(c.adam_eps > 0), "--adam-eps must be positive (got {})", c.adam_eps);
  p.add_if(c.weight_decay < 0, "--weight-decay must be at least 0 (got {})", c.weight_decay);
  p.add_if(c.clip_grad < 0, "--clip-grad must be at least 0 (got {})", c.clip_grad);
  p.add_if(c.seed < 0, "--seed must be at least 0 (got {})", c.seed);
  p.add_if(c.override_lr_scheduler && c.use_checkpoint_lr_scheduler,
           "--override-lr-scheduler and --use-checkpoint-lr-scheduler exclude each other");
}

bool is_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

// Returns for train, validation and test whether the split gives it any sequence of a large
// dataset.
std::array<bool, 3> shares_of_split(const std::string& split) {
  const auto ranges = split_ranges(split, int64_t{1} << 40);
  return {ranges[0].has_value(), ranges[1].has_value(), ranges[2].has_value()};
}

void check_data(const Config& c, Problems& p) {
  p.add_if(c.data_path.empty(), "--data-path is required: the PREFIX of PREFIX.bin and PREFIX.idx");
  const bool one_prefix =
      c.data_path.size() == 1 || (c.data_path.size() == 2 && is_number(c.data_path[0]));
  p.add_if(!c.data_path.empty() && !one_prefix,
           "--data-path with {} values: blends of datasets are not supported yet; give one PREFIX",
           c.data_path.size());
  try {
    const auto has_share = shares_of_split(c.split);
    p.add_if(!has_share[0] && !c.skip_train, "--split {} gives training 0 %", c.split);
    p.add_if(c.eval_iters > 0 && !has_share[1],
             "validation requested (--eval-iters {}) but --split {} gives it 0 %; "
             "give --eval-iters 0 or a share",
             c.eval_iters, c.split);
  } catch (const std::invalid_argument& error) {
    p.add_if(true, "--split {}: {}", c.split, error.what());
  }
  p.add_if(c.num_workers < 1, "--num-workers must be at least 1 (got {})", c.num_workers);
}

void check_checkpoints(const Config& c, Problems& p) {
  p.positive(c.save_interval, "--save-interval");
  p.add_if(!c.save.empty() && !c.save_interval, "--save {} needs --save-interval", c.save);
  p.add_if(c.save.empty() && c.save_interval, "--save-interval {} needs --save",
           c.save_interval.value_or(0));
  const bool load = !c.load.empty();
  p.add_if(!load && c.ckpt_step, "--ckpt-step {} needs --load", c.ckpt_step.value_or(0));
  p.add_if(!load && c.finetune, "--finetune needs --load");
  p.add_if(!load && c.exit_on_missing_checkpoint, "--exit-on-missing-checkpoint needs --load");
  p.add_if(c.ckpt_step.value_or(0) < 0, "--ckpt-step must be at least 0 (got {})",
           c.ckpt_step.value_or(0));
}

void check_logs(const Config& c, Problems& p) {
  p.add_if(c.log_interval < 1, "--log-interval must be positive (got {})", c.log_interval);
  p.add_if(c.tensorboard_log_interval < 1, "--tensorboard-log-interval must be positive (got {})",
           c.tensorboard_log_interval);
  p.add_if(c.timing_log_level < 0 || c.timing_log_level > 2,
           "--timing-log-level must be 0, 1 or 2 (got {})", c.timing_log_level);
}

// Several processes would each run the whole training and overwrite each other's checkpoints.
void check_world(const Config& c, Problems& p) {
  p.add_if(c.tensor_model_parallel_size != 1,
           "--tensor-model-parallel-size {} is not supported yet: only 1",
           c.tensor_model_parallel_size);
  p.add_if(c.pipeline_model_parallel_size != 1,
           "--pipeline-model-parallel-size {} is not supported yet: only 1",
           c.pipeline_model_parallel_size);
  p.add_if(c.device != "auto" && c.device != "cuda" && c.device != "cpu",
           "--device {} is none of auto, cuda, cpu", c.device);
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* text = std::getenv(name);
    if (text != nullptr && std::atoi(text) > 1) {
      p.add_if(
          true,
          "started as one of {} processes ({}={}), but this version trains in one process; start one task",
          text, name, text);
      return;
    }
  }
}

}  // namespace

std::vector<std::string> Config::problems() const {
  Problems p;
  check_shape(*this, p);
  check_limits(*this, p);
  check_duration(*this, p);
  check_optimizer(*this, p);
  check_data(*this, p);
  check_checkpoints(*this, p);
  check_logs(*this, p);
  check_world(*this, p);
  return p.list;
}

std::vector<std::string> Config::warnings() const {
  std::vector<std::string> list;
  if (ffn_hidden_size && *ffn_hidden_size != 4 * hidden_size) {
    list.push_back(fmt::format("--ffn-hidden-size {} is not 4 * --hidden-size ({})",
                               *ffn_hidden_size, 4 * hidden_size));
  }
  if (eval_iters > 0 && !shares_of_split(split)[2]) {
    list.push_back(fmt::format("--split {} gives the test set 0 %: no test at the end", split));
  }
  if (save.empty()) list.emplace_back("no --save: the trained weights will be lost");
  return list;
}

void Config::fill_defaults() {
  ffn_hidden_size = ffn_size();
  kv_channels = head_size();
  max_position_embeddings = positions();
  global_batch_size = global_batch();
  if (train_iters) {
    lr_decay_iters = lr_decay_iters.value_or(*train_iters);
    if (!lr_warmup_fraction) lr_warmup_iters = lr_warmup_iters.value_or(0);
  } else {
    lr_decay_samples = lr_decay_samples.value_or(*train_samples);
    if (!lr_warmup_fraction) lr_warmup_samples = lr_warmup_samples.value_or(0);
  }
  run_dir = run_folder();
  data_path = {data_path.back()};  // the weight of a single dataset has no meaning
}

int64_t Config::padded_vocab_size(int64_t tokenizer_vocab_size) const {
  if (pad_vocab_size_to) return *pad_vocab_size_to;
  const int64_t multiple = make_vocab_size_divisible_by * tensor_model_parallel_size;
  return (tokenizer_vocab_size + multiple - 1) / multiple * multiple;
}

}  // namespace weft
