// Muon on every kind of ranks: what they share of matrices, their state, and checkpoints of it.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "tests/trainer/step/saved_training.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

Variant with_muon() {
  Variant variant;
  variant.muon = muon_of_whole_matrices();
  variant.glu = Glu::kSwiglu;
  variant.num_query_groups = 2;
  return variant;
}

// Buckets of 1,024 elements cut every matrix into pieces of all ranks; owners take turns.
TEST(Muon, ShardedRanksMakeTheUpdatesOfReplicatedOnes) {
  Variant variant = with_muon();
  const Outcome one = train(variant);
  variant.topology = {.dp_size = 4};
  const Outcome replicated = train(variant);
  expect_near(replicated, one, 1e-5);
  variant.shards_optimizer = true;
  for (const int64_t bucket : {int64_t{1024}, int64_t{5000}, int64_t{40'000'000}}) {
    variant.bucket_elements = bucket;
    SCOPED_TRACE(variant.name());
    expect_near(train(variant), replicated, 1e-6);
  }
}

TEST(Muon, GatheredMatricesAreThoseOfOneRankAndBlocksAreNot) {
  Variant variant = with_muon();
  const Outcome one = train(variant);
  variant.topology = {.tp_size = 2, .pp_size = 2, .dp_size = 2};
  variant.shards_optimizer = true;
  variant.bucket_elements = 3000;
  expect_near(train(variant), one, 1e-5);
  variant.muon->gathers_matrices = false;
  const Outcome blocks = train(variant);
  EXPECT_GT(std::abs(blocks.steps.back().loss - one.steps.back().loss), 1e-4);
  expect_equal(train(variant), blocks);
}

TEST(Muon, SplitsQueriesKeysAndValues) {
  Variant variant = with_muon();
  const Outcome apart = train(variant, 2);
  variant.muon->splits_qkv = false;
  EXPECT_GT(std::abs(train(variant, 2).steps[1].loss - apart.steps[1].loss), 1e-5);
}

struct State {
  GlobalTensors tensors;
  std::vector<double> losses;  // of the steps after the checkpoint
};

State go_on(const fs::path& dir, const Variant& variant, bool loads) {
  constexpr int64_t kSaved = 2;
  State state;
  GlobalTensorsOfRanks tensors;
  run_topology(variant.topology, [&](ProcessGroups& groups) {
    TrainerOnDevice model(variant.options(), create_cpu_backend(1), groups);
    const auto step = [&] {
      const auto seed = static_cast<uint64_t>(model->scalar_state().iteration);
      const RankBatch batch(variant.options().shape, groups.layout, seed, variant.masks);
      model->step(batch.view(), {.learning_rate = 1e-2});
      return model->result();
    };
    if (loads) {
      load_training(dir, kSaved, model);
    } else {
      for (int64_t i = 0; i < kSaved; ++i) step();
      save_training(dir, variant, model, groups);
    }
    for (const StateTensor& t : model->state_tensors(true))
      tensors.add(TensorPiece{t.name, t.global_shape, t.split_dim, t.begin, t.end, t.first,
                              t.tensor.num_elements()},
                  to_host(*model.backend, t.tensor));
    for (int64_t i = 0; i < kSaved; ++i) {
      const StepResult result = step();
      if (groups.layout.world_rank() == 0) {
        state.losses.push_back(result.loss);
        state.losses.push_back(result.grad_norm);
      }
    }
  });
  state.tensors = tensors.take();
  return state;
}

class MuonRestart : public testing::TestWithParam<DType> {
 protected:
  void TearDown() override { fs::remove_all(dir_); }
  const fs::path dir_ =
      fs::temp_directory_path() / ("weft-muon-restart-" + std::to_string(::getpid()));
};

TEST_P(MuonRestart, OnAnyTopologyHasEveryTensorToTheBit) {
  Variant saved = with_muon();
  saved.dtype = GetParam();
  saved.topology = {.tp_size = 2, .pp_size = 2};
  const State expected = go_on(dir_, saved, /*loads=*/false);
  int64_t num_momentums = 0, num_moments = 0;
  for (const auto& [name, values] : expected.tensors) {
    const bool is_matrix = name.ends_with("weight") && name.find("linear") != std::string::npos;
    num_momentums += name.starts_with("optimizer/momentum_buffer/") ? 1 : 0;
    num_moments += name.starts_with("optimizer/exp_avg_sq/") ? 1 : 0;
    EXPECT_FALSE(is_matrix && name.starts_with("optimizer/exp_avg")) << name;
  }
  EXPECT_EQ(num_momentums, 4 * saved.num_layers);
  EXPECT_GT(num_moments, 0);
  for (const Topology& topology :
       {saved.topology, Topology{.dp_size = 4}, Topology{.tp_size = 2, .dp_size = 2}}) {
    Variant loaded = saved;
    loaded.topology = topology;
    loaded.shards_optimizer = topology.dp_size > 1;
    loaded.bucket_elements = 3000;
    SCOPED_TRACE(loaded.name());
    const State found = go_on(dir_, loaded, /*loads=*/true);
    EXPECT_EQ(found.tensors, expected.tensors);
    const bool is_same = topology.pp_size == 2;
    const double tolerance = is_same ? 0 : GetParam() == DType::kFloat32 ? 1e-5 : 2e-2;
    for (size_t i = 0; i < expected.losses.size(); ++i)
      EXPECT_NEAR(found.losses[i], expected.losses[i], tolerance * expected.losses[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(In, MuonRestart, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& test) {
                           return test.param == DType::kFloat32 ? "fp32" : "bf16";
                         });

// The second moments of matrices are not there, and the iterations take what their batches need.
TEST(Muon, MemoryHoldsOneMomentOfMatrices) {
  const auto bytes_of = [](Trainer& trainer, const std::string& name) {
    int64_t bytes = 0;
    for (const MemoryPlan::Buffer& buffer : trainer.plan().buffers())
      bytes += buffer.name == name ? buffer.num_bytes : 0;
    return bytes;
  };
  const std::unique_ptr<Backend> backend = create_cpu_backend(1);
  Variant variant;
  Trainer adam(*backend, variant.options());
  variant.muon = muon_of_whole_matrices();
  Trainer muon(*backend, variant.options());
  int64_t matrices = 0;
  for (const Parameter& parameter : muon.parameters().all())
    matrices += parameter.is_layer_matrix ? parameter.num_elements : 0;
  EXPECT_EQ(bytes_of(muon, "exp_avg_sq"), bytes_of(adam, "exp_avg_sq") - 4 * matrices);
  EXPECT_EQ(bytes_of(muon, "momentum and exp_avg"), bytes_of(adam, "exp_avg"));
  EXPECT_GT(bytes_of(muon, "Newton-Schulz matrices"), 0);
  EXPECT_EQ(bytes_of(adam, "Newton-Schulz matrices"), 0);
}

// --dry-run plans one of them. Large buckets leave ranks with matrices alone, or with none.
TEST(Muon, ShardedRanksPlanTheSameMemory) {
  Variant variant = with_muon();
  variant.topology = {.dp_size = 4};
  variant.shards_optimizer = true;
  const std::unique_ptr<Backend> backend = create_cpu_backend(1);
  for (const int64_t bucket : {int64_t{1024}, int64_t{5000}, int64_t{40'000'000}}) {
    variant.bucket_elements = bucket;
    std::vector<int64_t> bytes;
    for (int rank = 0; rank < 4; ++rank) {
      ProcessGroups groups = create_lone_process_groups();
      groups.layout = layout_of(variant.topology, rank);
      bytes.push_back(Trainer(*backend, variant.options(), groups).plan().device_bytes());
    }
    EXPECT_THAT(bytes, testing::Each(bytes[0])) << bucket;
  }
}

}  // namespace
}  // namespace weft
