// With kept keys and values a model writes what it writes when it reads all tokens again for each
// new one.
#include "trainer/generate/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/forwarding_backend.h"
#include "tests/trainer/generate/random_model.h"

namespace weft {
namespace {

using Tokens = std::vector<int32_t>;

// Lengths from 1 to beyond a block of queries; the batch is padded, and one prompt comes twice.
std::vector<Tokens> prompts_of(const ModelShape& shape) {
  std::vector<Tokens> prompts;
  uint64_t element = 0;
  for (const size_t length : {5, 1, 30, 12}) {
    prompts.emplace_back();
    for (size_t i = 0; i < length; ++i) {
      prompts.back().push_back(static_cast<int32_t>(philox_word(3, 1, element++) %
                                                    static_cast<uint32_t>(shape.vocab_size)));
    }
  }
  prompts.push_back(prompts[0]);
  return prompts;
}

// Returns the most likely token after `tokens`, by one pass over all of them.
int32_t next_by_whole_pass(InferenceModel& model, const Tokens& tokens, Tensor memory) {
  Backend& backend = model.backend();
  const auto T = static_cast<int64_t>(tokens.size());
  backend.copy(memory.data(), tokens.data(), T * 4, Stream::kCompute);
  model->set_sequence_length(std::max<int64_t>(T, 2));
  MicroBatch batch;
  batch.tokens = view(memory, {1, std::max<int64_t>(T, 2)});
  model->forward(batch, /*training=*/false);
  const std::vector<float> logits = to_host(backend, model->logits());
  const auto row = logits.begin() + (T - 1) * model.shape().padded_vocab_size;
  return static_cast<int32_t>(std::max_element(row, row + model.shape().vocab_size) - row);
}

// A backend that launches each operation of each step.
class WithoutRecordings final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::function<void()> repeatable(const std::function<void()>& enqueue) override {
    return enqueue;
  }
};

class Decoding : public testing::TestWithParam<NamedShape> {
 protected:
  // Not in the constructor: that runs where no device is, too, before the test is skipped.
  void SetUp() override { backend_ = create_test_backend(); }

  // Returns the tokens that are generated after each prompt.
  std::vector<Tokens> decode(const std::vector<Tokens>& prompts, int64_t num_tokens,
                             const Sampling& sampling, int64_t first_stream = 0) {
    DecoderSizes sizes{.batch_size = static_cast<int64_t>(prompts.size()),
                       .num_tokens = num_tokens,
                       .vocabulary_size = stored_.shape().vocab_size};
    for (const Tokens& prompt : prompts)
      sizes.longest_prompt = std::max(sizes.longest_prompt, static_cast<int64_t>(prompt.size()));
    Decoder decoder(*backend_, weights_of(stored_, DType::kFloat32), sizes, sampling);
    decoder.start(prompts, first_stream);
    std::vector<Tokens> texts(prompts.size());
    for (int64_t step = 0; step < num_tokens; ++step) {
      decoder.step();
      for (size_t i = 0; i < texts.size(); ++i) texts[i].push_back(decoder.tokens_of(step)[i]);
    }
    return texts;
  }

  std::unique_ptr<Backend> backend_;
  RandomModel stored_{GetParam().shape};
};

TEST_P(Decoding, WritesWhatWholePassesWrite) {
  const std::vector<Tokens> prompts = prompts_of(stored_.shape());
  constexpr int64_t kNumTokens = 20;
  const std::vector<Tokens> texts = decode(prompts, kNumTokens, {.temperature = 0});

  InferenceModel model(*backend_, inference_shape(weights_of(stored_, DType::kFloat32), 1, 60), {});
  Tensor memory;
  model.plan().add(MemoryClass::kBatch, "tokens", &memory, DType::kInt32, {60});
  model.allocate(128 << 20);  // more than any operation here takes, on any device
  model.load(stored_);
  std::set<int32_t> words;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Tokens tokens = prompts[i];
    for (int64_t step = 0; step < kNumTokens; ++step)
      tokens.push_back(next_by_whole_pass(model, tokens, memory));
    EXPECT_EQ(texts[i], Tokens(tokens.end() - kNumTokens, tokens.end())) << "prompt " << i;
    words.insert(texts[i].begin(), texts[i].end());
  }
  EXPECT_GT(words.size(), 5U) << "a model that repeats one word tells little";
}

TEST_P(Decoding, DrawsTokensThatDoNotDependOnTheBatch) {
  const std::vector<Tokens> prompts = prompts_of(stored_.shape());
  const Sampling sampling{.temperature = 1, .top_k = 20, .top_p = 0.9F, .seed = 7};
  const std::vector<Tokens> together = decode(prompts, 12, sampling);
  EXPECT_EQ(together, decode(prompts, 12, sampling));
  for (size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(decode({prompts[i]}, 12, sampling, static_cast<int64_t>(i)).front(), together[i])
        << "prompt " << i;
  }
  EXPECT_NE(together[0], together[4]) << "equal prompts draw numbers of their own";
  EXPECT_NE(together,
            decode(prompts, 12, {.temperature = 1, .top_k = 20, .top_p = 0.9F, .seed = 8}));
}

// Batches of several lengths follow each other, as they do where there are more prompts than fit
// into one.
TEST_P(Decoding, RepeatedStepsChooseWhatLaunchedOnesChoose) {
  std::vector<Tokens> prompts = prompts_of(stored_.shape());
  const std::vector<std::vector<Tokens>> batches = {
      prompts, {prompts[1], prompts[0]}, {prompts[3], prompts[3], prompts[3]}, prompts};
  const auto texts_on = [&](Backend& backend) {
    constexpr int64_t kNumTokens = 15;
    Decoder decoder(backend, weights_of(stored_, DType::kBFloat16),
                    {.batch_size = 5,
                     .longest_prompt = 30,
                     .num_tokens = kNumTokens,
                     .vocabulary_size = stored_.shape().vocab_size},
                    {.temperature = 1, .top_k = 30});
    std::vector<Tokens> texts;
    for (const std::vector<Tokens>& batch : batches) {
      decoder.start(batch, 3);
      for (int64_t step = 0; step < kNumTokens; ++step) {
        decoder.step();
        const std::span<const int32_t> tokens = decoder.tokens_of(step);
        texts.emplace_back(tokens.begin(), tokens.begin() + std::ssize(batch));
      }
    }
    return texts;
  };
  WithoutRecordings launching(create_test_backend());
  const std::vector<Tokens> launched = texts_on(launching);
  EXPECT_EQ(texts_on(*backend_), launched);
  const size_t last = launched.size() - 15;
  EXPECT_TRUE(std::equal(launched.begin(), launched.begin() + 15,
                         launched.begin() + static_cast<std::ptrdiff_t>(last)))
      << "the same batch again";
}

INSTANTIATE_TEST_SUITE_P(AllShapes, Decoding, testing::ValuesIn(all_shapes()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace weft
