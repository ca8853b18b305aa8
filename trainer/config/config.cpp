#include "trainer/config/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/option_set.h"

namespace weft {

namespace {

template <typename Enum, size_t kSize>
const char* word_for(Enum wanted, const std::pair<const char*, Enum> (&words)[kSize]) {
  for (const auto& [name, value] : words) {
    if (value == wanted) return name;
  }
  return "?";
}

}  // namespace

const char* name_of(LrDecayStyle style) { return word_for(style, kLrDecayStyles); }
const char* name_of(WsdDecayStyle style) { return word_for(style, kWsdDecayStyles); }
const char* name_of(WeightDecayStyle style) { return word_for(style, kWeightDecayStyles); }
const char* name_of(LogFormat format) { return word_for(format, kLogFormats); }

Glu Config::glu() const {
  if (swiglu || glu_activation == "swiglu") return Glu::kSwiglu;
  if (glu_activation == "geglu") return Glu::kGeglu;
  if (glu_activation == "reglu") return Glu::kReglu;
  if (glu_activation == "liglu") return Glu::kLiglu;
  return Glu::kNone;
}

std::optional<Fp8Options> Config::fp8() const {
  if (!has_fp8()) return std::nullopt;
  const bool is_hybrid = fp8_plain || fp8_hybrid || fp8_format == "hybrid";
  return Fp8Options{.gradients = is_hybrid ? DType::kFloat8E5M2 : DType::kFloat8E4M3,
                    .is_delayed = fp8_recipe == "delayed",
                    .margin = fp8_margin,
                    .amax_history_len = fp8_amax_history_len,
                    .uses_maximum = fp8_amax_compute_algo == "max",
                    .has_weight_gradients = !no_fp8_wgrad,
                    .measures_errors = fp8_shadow_interval.has_value()};
}

std::optional<MuonOptions> Config::muon() const {
  if (!uses_muon()) return std::nullopt;
  const auto scale = std::ranges::find_if(
      kMuonScales, [this](const auto& named) { return muon_scale_mode == named.first; });
  if (scale == std::end(kMuonScales))
    throw UsageError(fmt::format(
        "--muon-scale-mode {} is none of spectral, unit_rms_norm, shape_scaling", muon_scale_mode));
  return MuonOptions{
      .momentum = muon_momentum,
      .nesterov = muon_nesterov,
      .splits_qkv = !muon_no_split_qkv,
      .scale = scale->second,
      .extra_scale = muon_extra_scale_factor,
      .iterations = newton_schulz_iterations(muon_coefficient_type, muon_num_ns_steps),
      .products = muon_fp32_matmul_prec == "high" ? DType::kFloat32 : DType::kBFloat16,
      .gathers_matrices = muon_tp_mode == "duplicated"};
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
  if (has_curriculum() && curriculum.max_difficulty == 0) curriculum.max_difficulty = seq_length;
  bf16_optimizer_state = has_bf16_moments();
  exp_avg_dtype = exp_avg_sq_dtype = bf16_optimizer_state ? "bf16" : "fp32";
  run_dir = run_folder();
}

bool Config::plans_without_data() const {
  return dry_run && paths.empty() && paths.blend_schedule.empty();
}

int64_t Config::global_batch() const {
  if (global_batch_size) return *global_batch_size;
  if (!step_batch_size_schedule.empty()) return batch_size_plan().last();
  return micro_batch_size * data_parallel_size();
}

BatchSizePlan Config::batch_size_plan() const {
  const bool has_steps = !step_batch_size_schedule.empty();  // its last size is the global batch
  return BatchSizePlan::of_options(step_batch_size_schedule, has_steps ? 0 : global_batch(),
                                   rampup_batch_size, seq_length);
}

std::optional<MetricCurriculum> Config::metric_curriculum() const {
  if (curriculum_metrics.empty()) return std::nullopt;
  return MetricCurriculum{.metrics = curriculum_metrics,
                          .seed = curriculum_metrics_seed,
                          .global_batch_size = global_batch(),
                          .rampup_batch_size = rampup_batch_size,
                          .step_batch_size_schedule = step_batch_size_schedule};
}

LengthCurriculum Config::length_curriculum() const {
  return has_curriculum() ? LengthCurriculum(curriculum, seq_length) : LengthCurriculum(seq_length);
}

std::vector<StepRange> Config::untrained_steps() const {
  std::vector<StepRange> ranges;
  for (const int64_t iteration : iterations_to_skip) {
    if (iteration < 1)
      throw UsageError(
          fmt::format("--iterations-to-skip {}: give numbers of iterations, from 1 on", iteration));
    ranges.push_back({iteration, iteration});
  }
  for (const std::string& text : skip_train_iteration_range) {
    const size_t dash = text.find('-');
    const int64_t first = parse_int64(text.substr(0, dash)).value_or(0);
    const int64_t last =
        dash == std::string::npos ? 0 : parse_int64(text.substr(dash + 1)).value_or(0);
    if (first < 1 || last < first)
      throw UsageError(fmt::format(
          "--skip-train-iteration-range {}: give the first and the last iteration of each range, as "
          "in 101-120 301-310",
          text));
    ranges.push_back({first, last});
  }
  std::ranges::sort(ranges, {}, &StepRange::first);
  std::vector<StepRange> apart;
  for (const StepRange& range : ranges) {
    if (!apart.empty() && range.first <= apart.back().last + 1)
      apart.back().last = std::max(apart.back().last, range.last);
    else
      apart.push_back(range);
  }
  return apart;
}

std::optional<StepRange> Config::profiled_steps() const {
  if (profile_steps.empty()) return std::nullopt;
  // Each step's events stay in memory until the device has passed them.
  constexpr int64_t kMostSteps = 1000;
  const size_t colon = profile_steps.find(':');
  // 0 is no iteration, so it stands for texts that are no numbers.
  const int64_t first = parse_int64(profile_steps.substr(0, colon)).value_or(0);
  const int64_t last =
      colon == std::string::npos ? 0 : parse_int64(profile_steps.substr(colon + 1)).value_or(0);
  if (first < 1 || last < first || last - first >= kMostSteps) {
    throw UsageError(
        fmt::format("--profile-steps {}: give the first and the last iteration to profile, as in "
                    "50:59; they count from 1 and are at most {} together",
                    profile_steps, kMostSteps));
  }
  return StepRange{first, last};
}

int64_t Config::data_parallel_size() const {
  const int64_t model_parallel_size = tensor_model_parallel_size * pipeline_model_parallel_size;
  return model_parallel_size < 1 ? 1 : std::max<int64_t>(1, world_size / model_parallel_size);
}

int64_t Config::num_virtual_stages() const {
  if (num_virtual_stages_per_pipeline_rank) return *num_virtual_stages_per_pipeline_rank;
  const int64_t layers_of_rank = num_layers / std::max<int64_t>(1, pipeline_model_parallel_size);
  const int64_t layers = num_layers_per_virtual_pipeline_stage.value_or(layers_of_rank);
  return layers > 0 ? std::max<int64_t>(1, layers_of_rank / layers) : 1;
}

int64_t Config::padded_vocab_size(int64_t tokenizer_vocab_size) const {
  if (pad_vocab_size_to) return *pad_vocab_size_to;
  const int64_t multiple = make_vocab_size_divisible_by * tensor_model_parallel_size;
  return (tokenizer_vocab_size + multiple - 1) / multiple * multiple;
}

}  // namespace weft
