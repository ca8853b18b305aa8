// A checkpoint of several ranks holds what they have trained, and ranks of another topology go on
// from it. Trainers have lost the embedding's LayerNorm and a stage's copy of the tied embedding
// there [bigscience's chronicles of its 104B and 176B models].
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "tests/trainer/step/saved_training.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTied = "embedding.word_embeddings.weight";
constexpr const char* kNormWeight = "embedding.word_embeddings_layernorm.weight";
constexpr const char* kNormBias = "embedding.word_embeddings_layernorm.bias";

std::vector<float> floats_of(const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.num_elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = tensor.dtype() == DType::kBFloat16 ? static_cast<float>(tensor.as<BFloat16>()[i])
                                                   : tensor.as<float>()[i];
  }
  return values;
}

// The state of all ranks, put together, and the steps that came after.
struct Continuation {
  GlobalTensors state;
  std::vector<StepResult> steps;
  std::set<int> stages_with_tied;  // pipeline ranks that hold a copy of the word embedding
};

constexpr int64_t kSaved = 2;  // steps before the checkpoint, and after it

// Trains up to the checkpoint and saves it, or loads it into ranks that have other weights.
Continuation go_on(const fs::path& dir, const Variant& variant, bool loads) {
  Continuation continuation;
  GlobalTensorsOfRanks state;
  std::mutex mutex;
  run_topology(variant.topology, [&](ProcessGroups& groups) {
    TrainerOptions options = variant.options();
    if (loads) options.shape.seed += 1;
    TrainerOnDevice model(options, create_cpu_backend(1), groups);
    const auto step = [&] {
      const auto seed = static_cast<uint64_t>(model->scalar_state().iteration);
      const RankBatch batch(options.shape, groups.layout, seed, variant.masks);
      model->step(batch.view(), {.learning_rate = 1e-2});
      return model->result();
    };
    if (loads) {
      load_training(dir, kSaved, model);
    } else {
      for (int64_t i = 0; i < kSaved; ++i) step();
      save_training(dir, variant, model, groups);
    }
    for (const StateTensor& t : model->state_tensors(true)) {
      state.add(TensorPiece{t.name, t.global_shape, t.split_dim, t.begin, t.end, t.first,
                            t.tensor.num_elements()},
                floats_of(t.tensor));
      const std::lock_guard lock(mutex);
      if (t.name == std::string("model/") + kTied)
        continuation.stages_with_tied.insert(groups.layout.pp_rank);
    }
    for (int64_t i = 0; i < kSaved; ++i) {
      const StepResult result = step();
      if (groups.layout.world_rank() == 0) continuation.steps.push_back(result);
    }
  });
  continuation.state = state.take();
  return continuation;
}

class Restart : public testing::TestWithParam<DType> {
 protected:
  void TearDown() override { fs::remove_all(dir_); }
  const fs::path dir_ = fs::temp_directory_path() / ("weft-restart-" + std::to_string(::getpid()));
};

// Ranks that hold the same elements hold the same bits, on every topology.
TEST_P(Restart, OnAnotherTopologyHasEveryTensorToTheBit) {
  // Dropout's masks follow the seed, which a loaded run has another one of here.
  Variant saved;
  saved.topology.tp_size = saved.topology.pp_size = 2;
  saved.dtype = GetParam();
  saved.has_bf16_moments = GetParam() == DType::kBFloat16;
  saved.dropout = 0;
  saved.num_layers = 4;
  saved.has_embedding_norm = true;
  const Continuation expected = go_on(dir_, saved, /*loads=*/false);
  EXPECT_EQ(expected.stages_with_tied, (std::set<int>{0, 1}));
  const auto C = static_cast<size_t>(saved.options().shape.hidden_size);
  EXPECT_NE(expected.state.at(std::string("model/") + kNormWeight), std::vector<float>(C, 1))
      << "a norm that was reset would be seen";
  EXPECT_NE(expected.state.at(std::string("model/") + kNormBias), std::vector<float>(C, 0));
  Topology interleaved = saved.topology;
  interleaved.num_chunks = 2;
  for (const Topology& topology :
       {saved.topology, interleaved, Topology{.dp_size = 4}, Topology{.pp_size = 4}}) {
    Variant loaded = saved;
    loaded.topology = topology;
    SCOPED_TRACE(loaded.name());
    const Continuation found = go_on(dir_, loaded, /*loads=*/true);
    EXPECT_EQ(found.state, expected.state);
    EXPECT_TRUE(found.stages_with_tied.contains(topology.pp_size - 1));
    const bool is_same = topology.pp_size == 2 && topology.num_chunks == 1;
    const double tolerance = is_same ? 0 : GetParam() == DType::kFloat32 ? 1e-5 : 1e-2;
    for (size_t i = 0; i < expected.steps.size(); ++i) {
      EXPECT_NEAR(found.steps[i].loss, expected.steps[i].loss, tolerance * expected.steps[i].loss);
    }
  }
}

// A run may begin or cease to keep Adam's moments in bf16. Those of fp32 are rounded to the
// nearest; what was trained otherwise is the checkpoint's to the bit.
TEST(RestartWithMomentsOfAnotherType, ConvertsThemOnAnotherTopology) {
  const fs::path dir =
      fs::temp_directory_path() / ("weft-restart-moments-" + std::to_string(::getpid()));
  for (const bool begins : {true, false}) {
    Variant saved;
    saved.topology.tp_size = saved.topology.pp_size = 2;
    saved.dtype = DType::kBFloat16;
    saved.has_bf16_moments = !begins;
    saved.dropout = 0;
    const Continuation expected = go_on(dir, saved, /*loads=*/false);
    for (const Topology& topology : {saved.topology, Topology{.dp_size = 4}}) {
      Variant loaded = saved;
      loaded.topology = topology;
      loaded.has_bf16_moments = begins;
      loaded.shards_optimizer = topology.dp_size > 1;
      SCOPED_TRACE(loaded.name());
      const Continuation found = go_on(dir, loaded, /*loads=*/true);
      ASSERT_EQ(found.state.size(), expected.state.size());
      int64_t num_rounded = 0;
      for (const auto& [name, values] : expected.state) {
        std::vector<float> converted = values;
        if (begins && name.starts_with("optimizer/exp_avg")) {
          for (float& value : converted) value = static_cast<float>(BFloat16(value));
        }
        num_rounded += converted == values ? 0 : 1;
        EXPECT_EQ(found.state.at(name), converted) << name;
      }
      EXPECT_EQ(num_rounded > 0, begins);
      for (size_t i = 0; i < expected.steps.size(); ++i)
        EXPECT_NEAR(found.steps[i].loss, expected.steps[i].loss, 1e-2 * expected.steps[i].loss);
    }
    fs::remove_all(dir);
  }
}

INSTANTIATE_TEST_SUITE_P(In, Restart, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& test) {
                           return test.param == DType::kFloat32 ? "fp32" : "bf16";
                         });

}  // namespace
}  // namespace weft
