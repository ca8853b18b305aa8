// Endings that share a context get the scores that they get alone.
#include "trainer/evaluate/shared_contexts.h"

#include <gtest/gtest.h>

#include "kernels/forwarding_backend.h"
#include "tests/trainer/generate/random_model.h"

namespace weft {
namespace {

// Counts the tokens that the model reads, and the most operations that are planned together.
class TokenCounter final : public ForwardingBackend {
 public:
  TokenCounter() : ForwardingBackend(create_test_backend()) {}
  using ForwardingBackend::run;
  int64_t workspace_bytes(std::span<const AnyOperation> operations) const override {
    most_planned = std::max(most_planned, operations.size());
    return ForwardingBackend::workspace_bytes(operations);
  }
  void run(const KeepKeys& op) override {
    num_kept += op.qkv.shape(0) * op.qkv.shape(1);
    inner().run(op);
  }
  int64_t num_kept = 0;
  mutable size_t most_planned = 0;
};

class SharedContexts : public testing::TestWithParam<NamedShape> {
 protected:
  // Contexts of 1 to 40 tokens with 1 to 4 endings, of which some have one token alone.
  std::vector<ScoreRequest> requests() const {
    std::vector<ScoreRequest> requests;
    uint64_t element = 0;
    const auto append = [&](std::vector<int32_t>& tokens, size_t count) {
      for (size_t i = 0; i < count; ++i) {
        tokens.push_back(static_cast<int32_t>(philox_word(4, 1, element++) %
                                              static_cast<uint32_t>(stored_.shape().vocab_size)));
      }
    };
    const std::vector<std::pair<size_t, std::vector<size_t>>> contexts = {
        {12, {3, 1, 7}}, {40, {2, 9, 9, 1}}, {1, {5, 4}}, {25, {6}}, {12, {1, 1}}};
    for (const auto& [length, endings] : contexts) {
      std::vector<int32_t> context;
      append(context, length);
      for (const size_t ending : endings) {
        requests.push_back({.tokens = context, .num_context = length});
        append(requests.back().tokens, ending);
      }
    }
    return requests;
  }

  RandomModel stored_{GetParam().shape};
};

TEST_P(SharedContexts, GiveTheScoresOfEachAlone) {
  const std::vector<ScoreRequest> all = requests();
  const InferenceWeights weights = weights_of(stored_, DType::kFloat32);
  ASSERT_TRUE(have_shared_contexts(all, weights.shape));
  TokenCounter backend;
  const std::vector<Score> alone = Scorer(backend, weights, 60).score(all);
  EXPECT_EQ(backend.num_kept, 0);
  size_t done = 0;
  const std::vector<Score> shared =
      SharedContextScorer(backend, weights, all).score([&](size_t now) { done = now; });
  EXPECT_EQ(done, all.size());
  ASSERT_EQ(shared.size(), alone.size());
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_NEAR(shared[i].log_likelihood, alone[i].log_likelihood, 1e-4) << i;
    EXPECT_EQ(shared[i].is_greedy, alone[i].is_greedy) << i;
  }
  // Five contexts of up to 39 columns, and endings of up to 6, 9, 9 and 1.
  EXPECT_EQ(backend.num_kept, stored_.shape().num_layers * 5 * (39 + 6 + 9 + 9 + 1));
}

TEST_P(SharedContexts, AreThoseOfNeighboursInAModelWithoutDocuments) {
  std::vector<ScoreRequest> all = requests();
  ModelShape shape = stored_.shape();
  EXPECT_FALSE(have_shared_contexts({{all[0], all[3], all[7]}}, shape));
  EXPECT_FALSE(have_shared_contexts({}, shape));
  shape.masks_other_documents = true;
  EXPECT_FALSE(have_shared_contexts(all, shape));
}

// Benchmarks have thousands of batches. A plan holds the operations of one at a time.
TEST_P(SharedContexts, ArePlannedBatchByBatch) {
  const auto most_planned = [this](int32_t num_contexts) {
    std::vector<ScoreRequest> requests;
    for (int32_t i = 0; i < num_contexts; ++i) {
      for (const int32_t ending : {0, 1})
        requests.push_back({.tokens = {i % 2, ending}, .num_context = 1});
    }
    TokenCounter backend;
    SharedContextScorer(backend, weights_of(stored_, DType::kFloat32), requests);
    return backend.most_planned;
  };
  EXPECT_EQ(most_planned(500), most_planned(64));
}

INSTANTIATE_TEST_SUITE_P(AllShapes, SharedContexts, testing::ValuesIn(all_shapes()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace weft
