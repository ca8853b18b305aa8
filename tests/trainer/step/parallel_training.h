// A small model that ranks train together, as threads of one process.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/trainer/model_fixture.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "trainer/checkpoint/tensor_piece.h"

namespace weft {

constexpr int64_t kGlobalBatch = 8, kNumSteps = 6;

inline std::string name_of(const RecomputeOptions& recompute) {
  using Method = RecomputeOptions::Method;
  if (recompute.method == Method::kNone)
    return std::string(recompute.norms ? " norms" : "") +
           (recompute.activation ? " activation" : "") + (recompute.mlp ? " mlp" : "");
  return (recompute.method == Method::kUniform ? " uniform " : " block ") +
         std::to_string(recompute.num_layers);
}

// Muon with fp32 products, whose updates do not depend on the topology.
inline MuonOptions muon_of_whole_matrices() {
  MuonOptions muon;
  muon.extra_scale = 0.2;
  muon.iterations = newton_schulz_iterations("quintic", 5);
  muon.products = DType::kFloat32;
  muon.gathers_matrices = true;
  return muon;
}

inline std::string name_of(const std::optional<MuonOptions>& muon) {
  if (!muon) return "";
  return std::string(" muon") + (muon->gathers_matrices ? "" : " blockwise") +
         (muon->splits_qkv ? "" : " whole-qkv") + (muon->nesterov ? " nesterov" : "");
}

struct Variant {
  Topology topology = {};
  int64_t micro_batch_size = 1;
  bool shards_optimizer = false;
  int64_t bucket_elements = 40'000'000;
  DType dtype = DType::kFloat32;
  bool has_fp32_residual = false;
  bool masks = true;
  float dropout = 0.1F;
  int64_t vocab_size = 50;
  bool train_padded_vocabulary = false;
  int64_t num_layers = 2, num_heads = 4, head_size = 16, ffn_size = 64, seq_length = 16;
  float clip_grad = 0.5F;  // below the norm of these gradients
  Activation activation = Activation::kGeluTanh;
  Glu glu = Glu::kNone;
  bool has_embedding_norm = false;
  bool has_rotary_positions = false, has_alibi = false;  // in place of the table
  int64_t num_query_groups = 0;
  double rope_scaling_factor = 0;
  bool uses_rms_norm = false, has_qk_norm = false, stores_norms_less_one = false;
  bool unties_head = false, has_biases = true, has_qkv_bias = true;
  bool documents = false;      // positions restart, and attention stays inside documents
  int64_t planned_length = 0;  // sequences of the buffers, if batches have shorter ones
  RecomputeOptions recompute = {};
  int64_t logits_chunk = 0;
  int64_t micro_batch_group_size = 0;  // of interleaved stages
  bool scatters_between_stages = true;
  std::optional<LossScaleOptions> loss_scale = {};
  bool skips_bad_steps = false;
  bool has_bf16_moments = false;
  std::optional<MuonOptions> muon = {};
  std::optional<Fp8Options> fp8 = {};

  std::string name() const {
    std::string stages;
    for (const int64_t layers : topology.stage_layers)
      stages.append(" ").append(std::to_string(layers));
    return "tp" + std::to_string(topology.tp_size) + " pp" + std::to_string(topology.pp_size) +
           (topology.num_chunks > 1 ? " chunks" + std::to_string(topology.num_chunks) : "") +
           (micro_batch_group_size > 0 ? " groups of " + std::to_string(micro_batch_group_size)
                                       : "") +
           stages + " dp" + std::to_string(topology.dp_size) +
           (topology.sequence_parallel ? " sp" : "") +
           (scatters_between_stages ? "" : " whole-exchanges") +
           (shards_optimizer ? " zero1" : "") +
           (dtype == DType::kBFloat16  ? " bf16"
            : dtype == DType::kFloat16 ? " fp16"
                                       : "") +
           (has_fp32_residual ? " fp32-residual" : "") + " micro-batch " +
           std::to_string(micro_batch_size) + (masks ? " masked" : "") +
           (documents ? " documents" : "") + " dropout " + std::to_string(dropout) +
           " vocabulary " + std::to_string(vocab_size) +
           (train_padded_vocabulary ? " padded" : "") + " bucket " +
           std::to_string(bucket_elements) + " layers " + std::to_string(num_layers) + " heads " +
           std::to_string(num_heads) + " x " + std::to_string(head_size) + " ffn " +
           std::to_string(ffn_size) + " sequence " + std::to_string(seq_length) + " clip " +
           std::to_string(clip_grad) + " activation " +
           std::to_string(static_cast<int>(activation)) +
           (glu == Glu::kNone ? "" : " GLU " + std::to_string(static_cast<int>(glu))) +
           (has_embedding_norm ? " embedding-norm" : "") + (has_rotary_positions ? " rotary" : "") +
           (has_alibi ? " ALiBi" : "") +
           (num_query_groups > 0 ? " groups " + std::to_string(num_query_groups) : "") +
           (rope_scaling_factor > 0 ? " scaled" : "") + (uses_rms_norm ? " RMSNorm" : "") +
           (has_qk_norm ? " qk-norm" : "") + (stores_norms_less_one ? " 1p" : "") +
           (unties_head ? " untied" : "") + (has_biases ? "" : " no-biases") +
           (has_qkv_bias ? "" : " no-qkv-bias") + (has_bf16_moments ? " bf16-moments" : "") +
           name_of(muon) + (fp8 ? (fp8->is_delayed ? " fp8" : " fp8 tensorwise") : "") +
           name_of(recompute) + (logits_chunk > 0 ? " logits " + std::to_string(logits_chunk) : "");
  }
  TrainerOptions options() const {
    TrainerOptions options = small_options();
    options.shape.num_layers = num_layers;
    options.shape.num_heads = num_heads;
    options.shape.head_size = head_size;
    options.shape.ffn_size = ffn_size;
    options.shape.seq_length = seq_length;
    options.shape.activation = activation;
    options.shape.glu = glu;
    options.shape.has_embedding_norm = has_embedding_norm;
    options.shape.has_position_table = !has_rotary_positions && !has_alibi;
    options.shape.has_alibi = has_alibi;
    options.shape.rotary_size = has_rotary_positions ? head_size : 0;
    options.shape.num_query_groups = num_query_groups;
    options.shape.rope_scaling_factor = has_rotary_positions ? rope_scaling_factor : 0;
    options.shape.uses_rms_norm = uses_rms_norm;
    options.shape.has_qk_norm = has_qk_norm;
    options.shape.stores_norms_less_one = stores_norms_less_one;
    options.shape.unties_head = unties_head;
    options.shape.has_biases = has_biases;
    options.shape.has_qkv_bias = has_qkv_bias;
    options.shape.micro_batch_size = micro_batch_size;
    options.shape.dtype = dtype;
    options.shape.fp8 = fp8;
    options.shape.has_fp32_residual = has_fp32_residual;
    options.shape.vocab_size = vocab_size;
    options.shape.train_padded_vocabulary = train_padded_vocabulary;
    options.shape.hidden_dropout = options.shape.attention_dropout = dropout;
    options.optimizer.clip_grad = clip_grad;
    options.optimizer.has_bf16_moments = has_bf16_moments;
    options.optimizer.muon = muon;
    options.optimizer.seed = options.shape.seed;
    options.num_sample_losses = kGlobalBatch;
    // Some gradients are rounding alone (a bias of keys that queries share changes no
    // softmax). With a smaller epsilon
    // Adam makes whole updates of them, by their signs.
    options.optimizer.eps = 1e-5;
    options.has_loss_mask = masks;
    options.shape.restarts_positions = options.shape.masks_other_documents = documents;
    options.recompute = recompute;
    options.logits_chunk = logits_chunk;
    options.micro_batch_group_size = micro_batch_group_size;
    options.scatters_between_stages = scatters_between_stages;
    options.loss_scale = loss_scale;
    options.skips_bad_steps = skips_bad_steps;
    options.shards_optimizer = shards_optimizer;
    options.bucket_elements = bucket_elements;
    return options;
  }
};

// This rank's share of a global batch, in Megatron's order. Some tokens have no loss.
class RankBatch {
 public:
  RankBatch(const ModelShape& shape, const ParallelLayout& layout, uint64_t seed, bool masks) {
    ModelShape one = shape;
    one.micro_batch_size = 1;
    HostBatch whole(one, kGlobalBatch, seed);
    whole.split_documents();
    const int64_t B = shape.micro_batch_size, T = shape.seq_length, dp = layout.dp_size;
    batch_.num_micro_batches = kGlobalBatch / (B * dp);
    batch_.seq_length = T;
    for (int64_t k = 0; k < batch_.num_micro_batches; ++k) {
      double sum = 0;
      for (int64_t s = 0; s < B; ++s) {
        const int64_t sample = (k * dp + layout.dp_rank) * B + s;
        for (int64_t t = 0; t < T; ++t) {
          const auto at = static_cast<size_t>(sample * T + t);
          tokens_.push_back(whole.tokens()[at]);
          targets_.push_back(whole.targets()[at]);
          bounds_.push_back(whole.document_bounds()[2 * at]);
          bounds_.push_back(whole.document_bounds()[2 * at + 1]);
          // The same number of tokens counts in every sample: Megatron's mean over micro-batches
          // depends on their size otherwise.
          mask_.push_back((t + sample) % 4 == 0 ? 0.0F : 1.0F);
          sum += static_cast<double>(mask_.back());
        }
      }
      sums_.push_back(sum);
    }
    batch_.tokens = tokens_.data();
    batch_.targets = targets_.data();
    batch_.document_bounds = bounds_.data();
    if (!masks) return;
    batch_.loss_mask = mask_.data();
    batch_.mask_sums = sums_.data();
  }
  const GlobalBatch& view() const { return batch_; }

 private:
  GlobalBatch batch_;
  std::vector<int32_t> tokens_, targets_, bounds_;
  std::vector<float> mask_;
  std::vector<double> sums_;
};

using GlobalTensors = std::map<std::string, std::vector<float>>;

// Puts the slices of all ranks together. Elements that several ranks hold must be equal to the bit.
class GlobalTensorsOfRanks {
 public:
  void add(const Parameter& p, const std::vector<float>& values) {
    add(TensorPiece{p.name, p.global_shape, p.split_dim, p.begin, p.end, 0, p.num_own}, values);
  }
  void add(const TensorPiece& slice, const std::vector<float>& values) {
    TensorPiece whole{slice.name, slice.global_shape, -1, 0, 0, 0, 0};
    whole.count = slice_elements(whole);
    const std::lock_guard lock(mutex_);
    std::vector<float>& global = tensors_[slice.name];
    global.resize(static_cast<size_t>(whole.count), NAN);
    for_each_common_run(slice, whole, [&](int64_t from, int64_t to, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        float& element = global[static_cast<size_t>(to + i)];
        const float value = values[static_cast<size_t>(from + i)];
        if (std::isnan(element)) element = value;
        // Gradients that overflow are NaN on all of them.
        const bool is_equal = element == value || (std::isnan(element) && std::isnan(value));
        num_different_ += is_equal ? 0 : 1;
      }
    });
  }
  GlobalTensors take() {
    EXPECT_EQ(num_different_, 0) << "ranks hold different values of the same elements";
    return std::move(tensors_);
  }

 private:
  std::mutex mutex_;
  GlobalTensors tensors_;
  int64_t num_different_ = 0;
};

struct Outcome {
  double first_loss = 0;
  std::vector<StepResult> steps;
  double evaluation = 0;
  GlobalTensors initial, gradients,
      weights;  // gradients: of first_loss; with a replicated optimizer
};

inline Outcome train(const Variant& variant, int64_t num_steps = kNumSteps) {
  std::vector<Outcome> outcomes(static_cast<size_t>(variant.topology.world_size()));
  GlobalTensorsOfRanks initial, gradients, weights;
  run_topology(variant.topology, [&](ProcessGroups& groups) {
    const TrainerOptions options = variant.options();
    TrainerOptions planned = options;
    if (variant.planned_length > 0) planned.shape.seq_length = variant.planned_length;
    TrainerOnDevice model(planned, create_cpu_backend(1), groups);
    const auto collect = [&](GlobalTensorsOfRanks& of_ranks, bool gradient) {
      for (const Parameter& p : model->parameters().all()) {
        of_ranks.add(p, to_host(*model.backend, gradient ? model->gradient(p) : model->weight(p)));
      }
    };
    collect(initial, false);
    Outcome& outcome = outcomes[static_cast<size_t>(groups.layout.world_rank())];
    const auto batch_of = [&](uint64_t seed) {
      return RankBatch(options.shape, groups.layout, seed, variant.masks);
    };
    outcome.first_loss = model->forward_backward(batch_of(0).view());
    if (!variant.shards_optimizer) collect(gradients, true);
    for (int64_t step = 0; step < num_steps; ++step) {
      const RankBatch batch = batch_of(static_cast<uint64_t>(step));
      model->step(batch.view(), {.learning_rate = 1e-2, .params_norm = true});
      outcome.steps.push_back(model->result());
    }
    EXPECT_EQ(model->scalar_state().consumed_samples, num_steps * kGlobalBatch);
    const RankBatch batch = batch_of(99);
    model->evaluate(batch.view());
    outcome.evaluation = model->result().loss;
    collect(weights, false);
  });
  // Every rank has the same results, to the bit.
  for (const Outcome& other : outcomes) {
    EXPECT_EQ(other.first_loss, outcomes[0].first_loss);
    for (size_t i = 0; i < other.steps.size(); ++i) {
      EXPECT_EQ(other.steps[i].loss, outcomes[0].steps[i].loss);
      EXPECT_EQ(other.steps[i].outcome.skipped, outcomes[0].steps[i].outcome.skipped);
      EXPECT_EQ(other.steps[i].outcome.loss_scale, outcomes[0].steps[i].outcome.loss_scale);
      if (!other.steps[i].outcome.skipped) {  // else it may be NaN
        EXPECT_EQ(other.steps[i].grad_norm, outcomes[0].steps[i].grad_norm);
      }
      EXPECT_EQ(other.steps[i].params_norm, outcomes[0].steps[i].params_norm);
      EXPECT_EQ(other.steps[i].sample_losses, outcomes[0].steps[i].sample_losses);
    }
    EXPECT_EQ(other.evaluation, outcomes[0].evaluation);
  }
  Outcome outcome = std::move(outcomes[0]);
  outcome.initial = initial.take();
  outcome.gradients = gradients.take();
  outcome.weights = weights.take();
  return outcome;
}

inline void expect_near(const Outcome& a, const Outcome& b, double tolerance) {
  for (size_t i = 0; i < a.steps.size(); ++i) {
    const StepResult &x = a.steps[i], &y = b.steps[i];
    EXPECT_NEAR(x.loss, y.loss, tolerance * y.loss) << "step " << i;
    EXPECT_NEAR(x.grad_norm, y.grad_norm, 10 * tolerance * y.grad_norm) << "step " << i;
    EXPECT_NEAR(x.params_norm, y.params_norm, tolerance * y.params_norm) << "step " << i;
    ASSERT_EQ(x.sample_losses.size(), kGlobalBatch) << "step " << i;
    for (size_t s = 0; s < x.sample_losses.size(); ++s) {
      EXPECT_NEAR(x.sample_losses[s], y.sample_losses[s], 4 * tolerance * y.loss)
          << "step " << i << " sample " << s;
    }
  }
  EXPECT_NEAR(a.evaluation, b.evaluation, tolerance * b.evaluation);
}

// The norm over all elements of the model, each counted once.
inline double norm_of(const GlobalTensors& tensors) {
  double squares = 0;
  for (const auto& [name, values] : tensors) {
    for (const float value : values)
      squares += static_cast<double>(value) * static_cast<double>(value);
  }
  return std::sqrt(squares);
}

inline void expect_same_model(const Variant& variant, const Outcome& one) {
  SCOPED_TRACE(variant.name());
  const Outcome many = train(variant);
  EXPECT_EQ(many.initial, one.initial) << "initial weights are equal to the bit";
  EXPECT_NEAR(many.first_loss, one.first_loss, 1e-5 * one.first_loss);
  for (const auto& [name, gradient] : many.gradients) {
    EXPECT_LE(relative_error(gradient, one.gradients.at(name)), 1e-5) << name;
  }
  if (!variant.shards_optimizer) {
    const double norm = norm_of(many.gradients);
    EXPECT_NEAR(many.steps[0].grad_norm, norm, 1e-5 * norm) << "every parameter counts once";
  }
  const double params_norm = norm_of(many.weights);
  EXPECT_NEAR(many.steps.back().params_norm, params_norm, 1e-5 * params_norm);
  expect_near(many, one, 1e-5);
}

inline void expect_equal(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_EQ(a.steps[i].loss, b.steps[i].loss) << "step " << i;
    EXPECT_EQ(a.steps[i].grad_norm, b.steps[i].grad_norm) << "step " << i;
    EXPECT_EQ(a.steps[i].sample_losses, b.steps[i].sample_losses) << "step " << i;
  }
  EXPECT_EQ(a.weights, b.weights);
}

}  // namespace weft
