#include "trainer/model/model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/forwarding_backend.h"
#include "tests/trainer/model_fixture.h"

namespace weft {
namespace {

TrainerOptions small_options_with_dropout() {
  TrainerOptions options = small_options();
  options.shape.hidden_dropout = 0.2F;
  options.shape.attention_dropout = 0.15F;
  return options;
}

// The test moves a pseudo-random half of a parameter's elements along their gradient. By central
// differences the loss must change by that part's norm. fp32 losses of about 4 resolve a derivative
// to about 1e-4 at this step.
void check_gradients(const TrainerOptions& options, bool masked = false) {
  TrainerOnDevice model(options);
  HostBatch batch(options.shape, 2 * options.shape.micro_batch_size);
  if (masked) batch.mask_every(3);
  if (options.shape.needs_document_bounds()) batch.split_documents();
  model->forward_backward(batch.view());
  std::map<std::string, std::vector<float>> gradients;
  for (const Parameter& p : model->parameters().all()) {
    gradients[p.name] = to_host(*model.backend, model->gradient(p));
  }
  for (const Parameter& p : model->parameters().all()) {
    std::vector<float> direction = gradients[p.name];
    double squares = 0;
    for (size_t i = 0; i < direction.size(); ++i) {
      if (philox_word(1, 1, i) & 1) direction[i] = 0;
      squares += static_cast<double>(direction[i]) * static_cast<double>(direction[i]);
    }
    const double norm = std::sqrt(squares);
    ASSERT_GT(norm, 1e-4) << p.name;
    const std::vector<float> weight = to_host(*model.backend, model->weight(p));
    // The step is large against the loss's resolution, but so small that the curvature does not
    // show.
    const double step = 0.02;
    double losses[2];
    for (const int sign : {-1, 1}) {
      std::vector<float> moved = weight;
      for (size_t i = 0; i < moved.size(); ++i) {
        moved[i] += static_cast<float>(sign * step / norm) * direction[i];
      }
      to_device(*model.backend, model->weight(p), moved);
      losses[(sign + 1) / 2] = model->forward_backward(batch.view());
    }
    to_device(*model.backend, model->weight(p), weight);
    EXPECT_NEAR((losses[1] - losses[0]) / (2 * step), norm, 0.01 * norm + 2e-4) << p.name;
  }
}

TEST(ModelGradients, MatchFiniteDifferences) { check_gradients(small_options()); }
TEST(ModelGradients, MatchFiniteDifferencesWithDropout) {
  check_gradients(small_options_with_dropout());
}
TEST(ModelGradients, MatchFiniteDifferencesWithLossMaskAndErf) {
  TrainerOptions options = small_options();
  options.has_loss_mask = true;
  options.shape.activation = Activation::kGeluErf;
  check_gradients(options, /*masked=*/true);
}

TEST(ModelGradients, MatchFiniteDifferencesWithAHeadOfItsOwnAndWithoutBiases) {
  for (const bool has_qkv_bias : {false, true}) {
    TrainerOptions options = small_options_with_dropout();
    options.shape.unties_head = true;
    options.shape.has_biases = false;
    options.shape.has_qkv_bias = has_qkv_bias;
    check_gradients(options);
  }
}

TEST(ModelGradients, MatchFiniteDifferencesWithRmsNorm) {
  TrainerOptions options = small_options_with_dropout();
  options.shape.uses_rms_norm = true;
  check_gradients(options);
}

TEST(ModelGradients, MatchFiniteDifferencesWithNormsOfQueriesAndKeys) {
  for (const bool is_rms : {false, true}) {
    TrainerOptions options = small_options_with_dropout();
    options.shape.has_qk_norm = true;
    options.shape.uses_rms_norm = is_rms;
    // Without rotary positions a bias of all keys would change no softmax.
    options.shape.has_position_table = false;
    options.shape.rotary_size = kTestHeadSize / 2;
    options.shape.stores_norms_less_one = is_rms;
    check_gradients(options);
  }
}

TEST(ModelGradients, MatchFiniteDifferencesWithSquaredRelu) {
  TrainerOptions options = small_options();
  options.shape.activation = Activation::kSquaredRelu;
  check_gradients(options);
}

TEST(ModelGradients, MatchFiniteDifferencesWithALayerNormOfTheEmbedding) {
  for (const bool has_dropout : {false, true}) {
    TrainerOptions options = has_dropout ? small_options_with_dropout() : small_options();
    options.shape.has_embedding_norm = true;
    check_gradients(options);
  }
}

TEST(ModelGradients, MatchFiniteDifferencesWithAlibi) {
  for (const bool has_documents : {false, true}) {
    TrainerOptions options = small_options_with_dropout();
    options.shape.has_position_table = false;
    options.shape.has_alibi = true;
    options.shape.masks_other_documents = has_documents;
    options.shape.init_method_std = 0.2;
    check_gradients(options);
  }
}

// ReLU's corner shows in steps that are large enough for fp32 losses; the operation's own test has
// it.
TEST(ModelGradients, MatchFiniteDifferencesWithGatedLinearUnits) {
  for (const Glu glu : {Glu::kSwiglu, Glu::kGeglu, Glu::kLiglu}) {
    TrainerOptions options = small_options_with_dropout();
    SCOPED_TRACE(static_cast<int>(glu));
    options.shape.glu = glu;
    check_gradients(options);
  }
}

TEST(ModelGradients, MatchFiniteDifferencesWithRotaryPositionsAndGroupsOfQueries) {
  for (const bool has_groups : {false, true}) {
    TrainerOptions options = small_options_with_dropout();
    options.shape.has_position_table = false;
    options.shape.rotary_size = kTestHeadSize / 2;
    options.shape.rotary_interleaved = has_groups;
    options.shape.restarts_positions = has_groups;
    if (has_groups) {
      options.shape.num_heads = 4;
      options.shape.num_query_groups = 2;
      options.shape.init_method_std = 0.2;
    }
    check_gradients(options);
  }
}

// Rows of all heads then begin at any number of bytes.
TEST(ModelGradients, MatchFiniteDifferencesWithHeadsOfAnySize) {
  TrainerOptions options = small_options_with_dropout();
  options.shape.head_size = 5;
  options.shape.masks_other_documents = true;
  check_gradients(options);
  options.shape.head_size = 13;
  options.shape.has_position_table = false;
  options.shape.rotary_size = 10;
  options.shape.num_heads = 4;
  options.shape.num_query_groups = 2;
  check_gradients(options);
}

TEST(ModelGradients, MatchFiniteDifferencesWithDocuments) {
  for (const bool restarts : {false, true}) {
    TrainerOptions options = small_options_with_dropout();
    options.shape.restarts_positions = restarts;
    options.shape.masks_other_documents = true;
    check_gradients(options);
  }
}

// The tests of recomputation over many ranks are in step/recompute_test.cpp; this one runs on a
// GPU, too, where a product of 256 terms computes GELU by other kernels than shorter ones.
TEST(Model, RecomputedLayersHaveTheBitsOfKeptOnes) {
  using Method = RecomputeOptions::Method;
  struct Kind {
    DType dtype;
    int64_t hidden_size;
  };
  for (const Kind& kind :
       {Kind{DType::kFloat32, 32}, Kind{DType::kBFloat16, 32}, Kind{DType::kBFloat16, 256}}) {
    for (const bool has_dropout : {false, true}) {
      TrainerOptions options = has_dropout ? small_options_with_dropout() : small_options();
      options.shape.dtype = kind.dtype;
      options.shape.hidden_size = kind.hidden_size;
      options.shape.num_layers = 5;
      options.shape.restarts_positions = options.shape.masks_other_documents = has_dropout;
      TrainerOnDevice kept(options);
      HostBatch batch(options.shape, 4);
      batch.split_documents();
      const double loss = kept->forward_backward(batch.view());
      for (const RecomputeOptions& recompute :
           {RecomputeOptions{Method::kUniform, 1}, RecomputeOptions{Method::kUniform, 2},
            RecomputeOptions{Method::kUniform, 5}, RecomputeOptions{Method::kBlock, 2},
            RecomputeOptions{.norms = true}, RecomputeOptions{.activation = true},
            RecomputeOptions{.norms = true, .mlp = true}}) {
        options.recompute = recompute;
        TrainerOnDevice recomputed(options);
        EXPECT_LE(recomputed->plan().class_bytes(MemoryClass::kActivations),
                  kept->plan().class_bytes(MemoryClass::kActivations));
        ASSERT_EQ(recomputed->forward_backward(batch.view()), loss);
        for (const Parameter& p : kept->parameters().all()) {
          ASSERT_EQ(to_host(*recomputed.backend, recomputed->gradient(p)),
                    to_host(*kept.backend, kept->gradient(p)))
              << p.name << (has_dropout ? " with dropout" : "");
        }
      }
    }
  }
}

// The gradient of the head's weights is a sum over chunks, and products of fewer rows may take
// another algorithm. One chunk is the step without the option.
TEST(Model, LogitsInChunksChangeRoundingOnly) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    TrainerOptions options = small_options_with_dropout();
    options.shape.dtype = dtype;
    options.shape.unties_head = true;
    options.has_loss_mask = true;
    TrainerOnDevice whole(options);
    HostBatch batch(options.shape, 4);
    batch.mask_every(3);
    const double loss = whole->forward_backward(batch.view());
    const int64_t logits_bytes = whole->plan().class_bytes(MemoryClass::kLogits);
    for (const int64_t logits_chunk : {8, 12, 32, 100}) {
      SCOPED_TRACE(logits_chunk);
      options.logits_chunk = logits_chunk;
      TrainerOnDevice chunks(options);
      const bool is_whole = logits_chunk >= 32;
      EXPECT_EQ(chunks->plan().class_bytes(MemoryClass::kLogits) < logits_bytes, !is_whole);
      const double chunked_loss = chunks->forward_backward(batch.view());
      EXPECT_EQ(chunks->forward_backward(batch.view()), chunked_loss) << "deterministic";
      const double tolerance = dtype == DType::kFloat32 ? 1e-5 : 1e-2;
      EXPECT_NEAR(chunked_loss, loss, is_whole ? 0 : tolerance * loss);
      for (const Parameter& p : whole->parameters().all()) {
        EXPECT_LE(relative_error(to_host(*chunks.backend, chunks->gradient(p)),
                                 to_host(*whole.backend, whole->gradient(p))),
                  is_whole ? 0 : tolerance)
            << p.name;
      }
      whole->evaluate(batch.view());
      chunks->evaluate(batch.view());
      EXPECT_NEAR(chunks->result().loss, whole->result().loss, is_whole ? 0 : tolerance * loss);
    }
  }
}

// Keeps the gradients of queries, keys and values that attention's backward makes.
class AttentionGradients final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::vector<std::vector<float>> of_calls;

  using ForwardingBackend::run;
  void run(const AttentionBackward& op) override {
    EXPECT_TRUE(op.dqkv_bias);
    ForwardingBackend::run(op);
    of_calls.push_back(to_host(*this, packed_tensor(op.dqkv)));
  }
};

// Moving weights along their gradient does not show that a part of it is missing. Attention's
// operation makes that of the bias of queries, keys and values, over micro-batches, documents and
// with dropout; that of keys is 0.
TEST(Model, TheBiasOfQueriesKeysAndValuesGetsTheSumsOfAttentionsGradients) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const bool has_more : {false, true}) {
      TrainerOptions options = has_more ? small_options_with_dropout() : small_options();
      options.shape.dtype = dtype;
      options.shape.masks_other_documents = has_more;
      TrainerOnDevice model(options, std::make_unique<AttentionGradients>(create_test_backend()));
      HostBatch batch(options.shape, 3 * options.shape.micro_batch_size);
      batch.split_documents();
      model->forward_backward(batch.view());
      const auto& calls = dynamic_cast<AttentionGradients&>(*model.backend).of_calls;
      ASSERT_EQ(calls.size(), 3U * 2U);
      const auto D = static_cast<size_t>(options.shape.head_size);
      for (const size_t layer : {0U, 1U}) {
        SCOPED_TRACE(layer);
        const std::vector<float> bias = to_host(
            *model.backend,
            model->gradient(model->parameters().find("decoder.layers." + std::to_string(layer) +
                                                     ".self_attention.linear_qkv.bias")));
        ASSERT_EQ(bias.size(), 3 * 3 * D);
        for (const size_t part : {0U, 1U, 2U}) {
          std::vector<float> own, wanted;
          for (size_t i = 0; i < bias.size(); ++i) {
            if (i / D % 3 != part) continue;
            double sum = 0;
            for (size_t call = 1 - layer; call < calls.size(); call += 2) {
              for (size_t j = i; j < calls[call].size(); j += bias.size())
                sum += static_cast<double>(calls[call][j]);
            }
            own.push_back(bias[i]);
            wanted.push_back(static_cast<float>(sum));
          }
          if (part == 1) {
            EXPECT_EQ(own, std::vector<float>(own.size(), 0.0F));
          } else {
            EXPECT_LE(relative_error(own, wanted), dtype == DType::kFloat32 ? 1e-5 : 2e-2) << part;
          }
        }
      }
    }
  }
}

TEST(Model, LossAndGradientsDoNotDependOnMicroBatching) {
  TrainerOptions options = small_options_with_dropout();
  const HostBatch batch(options.shape, 8);
  TrainerOnDevice in_four(options);
  const double loss = in_four->forward_backward(batch.view());

  options.shape.micro_batch_size = 8;
  TrainerOnDevice in_one(options);
  const HostBatch same_batch(options.shape, 8);
  EXPECT_NEAR(in_one->forward_backward(same_batch.view()), loss, 1e-6 * loss);
  for (const Parameter& p : in_one->parameters().all()) {
    EXPECT_LE(relative_error(to_host(*in_one.backend, in_one->gradient(p)),
                             to_host(*in_four.backend, in_four->gradient(p))),
              1e-5)
        << p.name;
  }
}

TEST(Model, GradientsOfAStepDoNotContainThoseOfTheLast) {
  TrainerOnDevice model(small_options());
  const HostBatch batch(model->shape(), 4), other(model->shape(), 4, 1);
  model->forward_backward(batch.view());
  std::map<std::string, std::vector<float>> gradients;
  for (const Parameter& p : model->parameters().all()) {
    gradients[p.name] = to_host(*model.backend, model->gradient(p));
  }
  model->forward_backward(other.view());
  model->forward_backward(batch.view());
  for (const Parameter& p : model->parameters().all()) {
    EXPECT_EQ(to_host(*model.backend, model->gradient(p)), gradients[p.name]) << p.name;
  }
}

TEST(Model, DropoutDiffersByIterationAndIsAbsentInEvaluation) {
  TrainerOnDevice model(small_options_with_dropout());
  const HostBatch batch(model->shape(), 2);
  const double first = model->forward_backward(batch.view());
  EXPECT_EQ(model->forward_backward(batch.view()), first);
  ScalarState later;
  later.iteration = 1;
  model->set_scalar_state(later);
  EXPECT_NE(model->forward_backward(batch.view()), first);

  TrainerOnDevice without(small_options());
  without->evaluate(batch.view());
  model->evaluate(batch.view());
  EXPECT_EQ(model->result().loss, without->result().loss);
}

// The padding takes part only where that is asked for, as in Megatron.
TEST(Model, InitialLossIsThatOfAUniformGuess) {
  for (const bool train_padded_vocabulary : {false, true}) {
    TrainerOptions options = small_options();
    options.shape.init_method_std = 0.01;
    options.shape.train_padded_vocabulary = train_padded_vocabulary;
    TrainerOnDevice model(options);
    const HostBatch batch(options.shape, 2);
    model->evaluate(batch.view());
    EXPECT_NEAR(model->result().loss, std::log(train_padded_vocabulary ? 64.0 : 50.0), 0.02);
  }
}

// Another padding, which another tensor-parallel size brings, is the same model.
TEST(Model, PaddingOfTheVocabularyChangesNeitherLossNorWeights) {
  std::vector<std::vector<float>> losses, words;
  for (const int64_t padded : {56, 64, 128}) {
    TrainerOptions options = small_options();
    options.shape.padded_vocab_size = padded;
    TrainerOnDevice model(options);
    std::vector<float>& own = losses.emplace_back();
    for (int64_t step = 0; step < 3; ++step) {
      const HostBatch batch(options.shape, 4, static_cast<uint64_t>(step));
      model->step(batch.view(), {.learning_rate = 1e-2, .params_norm = true});
      const StepResult result = model->result();
      own.insert(own.end(), {static_cast<float>(result.loss), static_cast<float>(result.grad_norm),
                             static_cast<float>(result.params_norm)});
    }
    const Parameter& word = model->parameters().find("embedding.word_embeddings.weight");
    EXPECT_EQ(word.num_own, 50 * 32);
    const std::vector<float> table = to_host(*model.backend, model->weight(word));
    const auto padding = table.begin() + word.num_own;
    EXPECT_EQ(std::vector<float>(padding, table.end()),
              std::vector<float>(static_cast<size_t>((padded - 50) * 32), 0.0F));
    words.emplace_back(table.begin(), padding);
  }
  for (size_t i = 1; i < losses.size(); ++i) {
    EXPECT_LE(relative_error(losses[i], losses[0]), 1e-6);
    EXPECT_LE(relative_error(words[i], words[0]), 1e-5);
  }
}

TEST(Model, MaskedTokensDoNotCount) {
  TrainerOptions options = small_options();
  options.has_loss_mask = true;
  HostBatch batch(options.shape, 2);
  batch.mask_every(2);
  TrainerOnDevice model(options);
  const double loss = model->forward_backward(batch.view());
  const auto gradient = [&] {
    return to_host(*model.backend,
                   model->gradient(model->parameters().find("decoder.final_layernorm.bias")));
  };
  const std::vector<float> expected = gradient();
  for (size_t i = 0; i < batch.targets().size(); i += 2) batch.targets()[i] = 0;
  EXPECT_EQ(model->forward_backward(batch.view()), loss);
  EXPECT_EQ(gradient(), expected);
  batch.targets()[1] = (batch.targets()[1] + 1) % 50;
  EXPECT_NE(model->forward_backward(batch.view()), loss);
}

TEST(Model, ShortSequencesInLongBuffersHaveTheSameBits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    TrainerOptions options = small_options_with_dropout();
    options.has_loss_mask = true;
    options.shape.dtype = dtype;
    TrainerOnDevice long_buffers(options);
    // They grow, shrink, and end with the whole length.
    for (const int64_t length : {8, 2, 13, 5, 16}) {
      SCOPED_TRACE(length);
      options.shape.seq_length = length;
      TrainerOnDevice fitting(options);
      for (const bool masked : {false, true}) {
        HostBatch batch(options.shape, 4, static_cast<uint64_t>(length));
        if (masked) batch.mask_every(3);
        ASSERT_EQ(long_buffers->forward_backward(batch.view()),
                  fitting->forward_backward(batch.view()));
        for (const Parameter& p : fitting->parameters().all()) {
          ASSERT_EQ(to_host(*long_buffers.backend, long_buffers->gradient(p)),
                    to_host(*fitting.backend, fitting->gradient(p)))
              << p.name;
        }
      }
    }
  }
}

TEST(Model, RefusesSequencesThatDoNotFitItsBuffers) {
  TrainerOptions options = small_options();
  TrainerOnDevice model(options);
  options.shape.seq_length = 17;
  const HostBatch batch(options.shape, 2);
  EXPECT_THROW(model->forward_backward(batch.view()), std::invalid_argument);
}

TEST(Model, RefusesLayoutsAndSizesThatAreNotBuilt) {
  const auto backend = create_test_backend();
  TrainerOptions options = small_options();
  ProcessGroups groups = create_lone_process_groups();
  groups.layout.tp_size = 2;
  EXPECT_THROW(Trainer(*backend, options, groups), std::invalid_argument) << "three heads";
  options.shape.num_heads = 4;
  Trainer planned(*backend, options, groups);
  EXPECT_THROW(planned.allocate(), std::logic_error) << "a lone process can only plan";
  groups = create_lone_process_groups();
  options = small_options();
  groups.layout.pp_size = static_cast<int>(options.shape.num_layers) + 1;
  EXPECT_THROW(Trainer(*backend, options, groups), std::invalid_argument)
      << "stages without layers";
  groups = create_lone_process_groups();
  options.shape.max_positions = 15;
  EXPECT_THROW(Trainer(*backend, options, groups), std::invalid_argument);
}

}  // namespace
}  // namespace weft
