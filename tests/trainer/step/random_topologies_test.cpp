// Random compositions of topology, sizes and options train the model that one rank trains and go on
// from each other's checkpoints: trainers fail where kinds of parallelism meet.
//
// WEFT_TEST_SEED repeats a run, WEFT_TEST_ROUNDS sets its length.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>

#include "tests/trainer/step/saved_training.h"

namespace weft {
namespace {

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class Chooser {
 public:
  explicit Chooser(uint64_t seed) : random_(seed) {}
  template <typename T>
  T of(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  int64_t between(int64_t first, int64_t last) {
    return first + static_cast<int64_t>(random_() % static_cast<uint64_t>(last - first + 1));
  }

 private:
  std::mt19937_64 random_;
};

// Each layer goes to any stage; only the first and the last may get none. Stages are interleaved
// where the others get one layer at least.
void set_stages(Variant& v, Chooser& choose) {
  v.topology.num_chunks = 1;
  if (v.topology.pp_size == 1) return v.topology.stage_layers.clear();
  v.topology.num_chunks = choose.of({1, 2, 2, 3});
  v.micro_batch_group_size = choose.of({0, v.topology.pp_size, v.topology.pp_size + 1});
  if (v.topology.num_stages() - 2 > v.num_layers) v.topology.num_chunks = 1;
  const auto num_stages = static_cast<int>(v.topology.num_stages());
  std::vector<int64_t>& layers = v.topology.stage_layers;
  layers.assign(static_cast<size_t>(num_stages), 0);
  for (size_t stage = 1; stage + 1 < layers.size(); ++stage) layers[stage] = 1;
  const int64_t left = v.num_layers - (num_stages - 2);
  for (int64_t i = 0; i < left; ++i)
    layers[static_cast<size_t>(choose.between(0, num_stages - 1))] += 1;
}

Variant any_variant(Chooser& choose) {
  Variant v;
  v.topology.tp_size = choose.of({1, 2, 4});
  v.topology.dp_size = v.topology.tp_size == 4 ? choose.of({1, 2}) : choose.of({1, 2, 4});
  v.topology.pp_size = choose.of({1, 1, 2, 3});
  if (v.topology.world_size() > 12) v.topology.pp_size = 1;  // threads of one machine
  v.topology.order = choose.of({RankOrder::kTpDpPp, RankOrder::kTpPpDp});
  v.micro_batch_size = choose.of({int64_t{1}, int64_t{2}});
  v.shards_optimizer = choose.of({false, true});
  v.bucket_elements = choose.of({int64_t{1024}, int64_t{10'000}, int64_t{40'000'000}});
  v.dtype = choose.of({DType::kFloat32, DType::kFloat32, DType::kBFloat16, DType::kFloat16});
  v.has_fp32_residual = choose.of({false, true}) && v.dtype != DType::kFloat32;
  if (v.dtype == DType::kFloat16) v.loss_scale = LossScaleOptions{.constant = 256};
  v.masks = choose.of({false, true});
  v.dropout = choose.of({0.0F, 0.1F, 0.3F});
  v.vocab_size = choose.between(5, 64);
  v.train_padded_vocabulary = choose.of({false, false, true});
  v.num_layers = choose.between(1, 7);
  set_stages(v, choose);
  v.num_heads = 4 * choose.between(1, 2);
  v.head_size = choose.of({int64_t{8}, int64_t{16}});
  v.ffn_size = 4 * choose.between(1, 40);
  v.seq_length = choose.between(4, 20);
  v.clip_grad = choose.of({0.0F, 0.5F});
  v.activation = choose.of(
      {Activation::kGeluTanh, Activation::kGeluErf, Activation::kRelu, Activation::kSquaredRelu});
  v.glu = choose.of({Glu::kNone, Glu::kNone, Glu::kSwiglu, Glu::kGeglu});
  v.has_embedding_norm = choose.of({false, true});
  v.has_rotary_positions = choose.of({false, true});
  v.has_alibi = choose.of({false, true}) && !v.has_rotary_positions;
  v.num_query_groups = choose.of({int64_t{0}, int64_t{4}});
  v.rope_scaling_factor = choose.of({0.0, 8.0});
  v.uses_rms_norm = choose.of({false, true});
  v.has_qk_norm = choose.of({false, true});
  v.stores_norms_less_one = choose.of({false, false, true});
  v.unties_head = choose.of({false, true});
  v.has_biases = choose.of({true, true, false});
  v.has_qkv_bias = v.has_biases || choose.of({false, true});
  v.documents = choose.of({false, true});
  v.scatters_between_stages = choose.of({true, true, false});
  v.recompute.method =
      choose.of({RecomputeOptions::Method::kNone, RecomputeOptions::Method::kUniform,
                 RecomputeOptions::Method::kBlock});
  v.recompute.num_layers = choose.between(1, 3);
  v.logits_chunk = choose.of({int64_t{0}, int64_t{1}, int64_t{7}, int64_t{64}});
  const bool keeps_layers = v.recompute.method == RecomputeOptions::Method::kNone;
  v.recompute.norms = choose.of({false, true}) && keeps_layers;
  v.recompute.activation = choose.of({false, true}) && keeps_layers;
  v.recompute.mlp = choose.of({false, true}) && keeps_layers;
  if (choose.of({false, true})) {
    v.muon = muon_of_whole_matrices();
    v.muon->nesterov = choose.of({false, true});
    v.muon->splits_qkv = choose.of({true, true, false});
    v.muon->scale =
        choose.of({MuonScale::kSpectral, MuonScale::kUnitRmsNorm, MuonScale::kShapeScaling});
  }
  v.topology.sequence_parallel =
      v.micro_batch_size * v.seq_length % v.topology.tp_size == 0 && choose.of({false, true, true});
  return v;
}

// Newton-Schulz iterations multiply what rounding leaves of singular values that are zero, as few
// different tokens make them, by some hundred.
double tolerance_of(const Variant& variant) {
  if (variant.dtype != DType::kFloat32) return 2e-2;
  return variant.muon ? 1e-4 : 1e-5;
}

void for_each_round(uint64_t default_rounds, const std::function<void(Chooser&)>& body) {
  const uint64_t seed = from_environment("WEFT_TEST_SEED", 20261122);
  const uint64_t rounds = from_environment("WEFT_TEST_ROUNDS", default_rounds);
  std::cout << "WEFT_TEST_SEED=" << seed << " WEFT_TEST_ROUNDS=" << rounds << "\n";
  Chooser choose(seed);
  for (uint64_t round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("WEFT_TEST_SEED=" + std::to_string(seed) + " round " + std::to_string(round));
    body(choose);
  }
}

TEST(RandomTopologies, TrainTheModelOfOneRank) {
  for_each_round(12, [](Chooser& choose) {
    const Variant many = any_variant(choose);
    SCOPED_TRACE(many.name());
    Variant one = many;
    one.topology = {};
    one.recompute = {};
    one.logits_chunk = 0;
    const Outcome expected = train(one, 3), outcome = train(many, 3);
    EXPECT_EQ(outcome.initial, expected.initial);
    // Adam's first updates are signs, which bf16's rounding of small gradients turns around.
    const bool is_fp32 = many.dtype == DType::kFloat32;
    EXPECT_NEAR(outcome.first_loss, expected.first_loss,
                (is_fp32 ? 1e-5 : 3e-3) * expected.first_loss);
    // ReLU's slope jumps at 0, where 16 bits may round a product to the other side: a unit more or
    // less changes a gradient of few tokens by some percent.
    const bool has_jumps = many.glu == Glu::kNone && many.activation == Activation::kRelu;
    const double tolerance = is_fp32 ? 1e-5 : has_jumps ? 0.2 : 0.05;
    // Some gradients are rounding alone: a norm of queries changes nothing where documents have one
    // token.
    const double least = 0.01 * norm_of(expected.gradients);
    for (const auto& [name, gradient] : outcome.gradients) {
      const std::vector<float>& wanted = expected.gradients.at(name);
      const double norm = norm_of({{name, wanted}});
      const double error = relative_error(gradient, wanted) * (norm / std::max(norm, least));
      EXPECT_LE(error, tolerance) << name;
    }
    expect_near(outcome, expected, tolerance_of(many));
  });
}

constexpr int64_t kSaved = 2;  // steps before the checkpoint, and after it

// Loads the checkpoint in `dir`, or trains up to it and saves it. Returns losses and norms of the
// kSaved steps after it.
std::vector<double> losses_after(const std::filesystem::path& dir, const Variant& variant,
                                 bool loads) {
  std::vector<double> losses;
  run_topology(variant.topology, [&](ProcessGroups& groups) {
    const TrainerOptions options = variant.options();
    TrainerOnDevice model(options, create_cpu_backend(1), groups);
    const auto step = [&] {
      const auto seed = static_cast<uint64_t>(model->scalar_state().iteration);
      const RankBatch batch(options.shape, groups.layout, seed, variant.masks);
      model->step(batch.view(), {.learning_rate = 1e-3});
      return model->result();
    };
    if (loads) {
      load_training(dir, kSaved, model);
    } else {
      for (int64_t i = 0; i < kSaved; ++i) step();
      save_training(dir, variant, model, groups);
    }
    for (int64_t i = 0; i < kSaved; ++i) {
      const StepResult result = step();
      if (groups.layout.world_rank() == 0) {
        losses.insert(losses.end(), {result.loss, result.grad_norm});
      }
    }
  });
  return losses;
}

TEST(RandomTopologies, GoOnFromEachOthersCheckpoints) {
  std::string name = (std::filesystem::temp_directory_path() / "weft-random-XXXXXX").string();
  const std::filesystem::path root = mkdtemp(name.data());
  int number = 0;
  for_each_round(8, [&](Chooser& choose) {
    const std::filesystem::path dir = root / std::to_string(number++);
    const Variant saved = any_variant(choose);
    const std::vector<double> expected = losses_after(dir, saved, /*loads=*/false);
    EXPECT_EQ(losses_after(dir, saved, /*loads=*/true), expected) << "to the bit: " << saved.name();

    Variant loaded = saved;
    const Variant other = any_variant(choose);
    loaded.topology = other.topology;
    set_stages(loaded, choose);
    loaded.recompute = other.recompute;
    loaded.logits_chunk = other.logits_chunk;
    loaded.scatters_between_stages = other.scatters_between_stages;
    loaded.shards_optimizer = other.shards_optimizer;
    loaded.bucket_elements = other.bucket_elements;
    if (saved.micro_batch_size * saved.seq_length % loaded.topology.tp_size != 0)
      loaded.topology.sequence_parallel = false;
    SCOPED_TRACE("saved by " + saved.name() + ", loaded by " + loaded.name());
    const std::vector<double> losses = losses_after(dir, loaded, /*loads=*/true);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(losses[i], expected[i], tolerance_of(saved) * expected[i]);
  });
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace weft
