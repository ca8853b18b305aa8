// Documents in one row train as if each had a row of its own.
#include <gtest/gtest.h>

#include <random>

#include "tests/trainer/model_fixture.h"

namespace weft {
namespace {

TrainerOptions options_of(bool restarts_positions, bool masks_other_documents) {
  TrainerOptions options = small_options();
  options.shape.micro_batch_size = 1;
  options.shape.restarts_positions = restarts_positions;
  options.shape.masks_other_documents = masks_other_documents;
  options.has_loss_mask = true;
  return options;
}

// A batch of one row: tokens, documents, and a mask of ones and zeros.
struct Row {
  std::vector<int32_t> tokens, targets, bounds;
  std::vector<float> mask;
  double mask_sum = 0;

  // Documents of these lengths fill the row.
  Row(std::mt19937& random, const std::vector<int64_t>& lengths) {
    int64_t begin = 0;
    for (const int64_t length : lengths) {
      for (int64_t i = 0; i < length; ++i) {
        tokens.push_back(static_cast<int32_t>(random() % 50));
        targets.push_back(static_cast<int32_t>(random() % 50));
        bounds.push_back(static_cast<int32_t>(begin));
        bounds.push_back(static_cast<int32_t>(begin + length));
      }
      begin += length;
    }
    mask.assign(tokens.size(), 1.0F);
    mask_sum = static_cast<double>(tokens.size());
  }
  // Returns one document at the beginning of a row. No token looks at those behind it, and the mask
  // leaves them out.
  Row alone(int64_t begin, int64_t length) const {
    Row row(*this);
    const auto T = static_cast<int64_t>(tokens.size());
    for (int64_t t = 0; t < T; ++t) {
      const auto to = static_cast<size_t>(t), from = static_cast<size_t>((begin + t) % T);
      row.tokens[to] = tokens[from];
      row.targets[to] = targets[from];
      row.mask[to] = t < length ? 1.0F : 0.0F;
      row.bounds[2 * to] = 0;
      row.bounds[2 * to + 1] = static_cast<int32_t>(T);
    }
    row.mask_sum = static_cast<double>(length);
    return row;
  }
  GlobalBatch view() const {
    GlobalBatch batch;
    batch.num_micro_batches = 1;
    batch.tokens = tokens.data();
    batch.targets = targets.data();
    batch.loss_mask = mask.data();
    batch.mask_sums = &mask_sum;
    batch.document_bounds = bounds.data();
    return batch;
  }
};

std::vector<int64_t> random_lengths(std::mt19937& random, int64_t T) {
  std::vector<int64_t> lengths;
  for (int64_t left = T; left > 0; left -= lengths.back())
    lengths.push_back(1 + static_cast<int64_t>(random()) % std::min<int64_t>(left, 9));
  return lengths;
}

TEST(Documents, OfARowTrainAsRowsOfTheirOwn) {
  std::mt19937 random(11);
  const TrainerOptions together = options_of(true, true), apart = options_of(false, false);
  TrainerOnDevice row_model(together), document_model(apart);
  for (int round = 0; round < 12; ++round) {
    const std::vector<int64_t> lengths =
        round == 0 ? std::vector<int64_t>(16, 1) : random_lengths(random, 16);
    SCOPED_TRACE(testing::PrintToString(lengths));
    const Row row(random, lengths);
    const double loss = row_model->forward_backward(row.view());
    double sum = 0;
    std::map<std::string, std::vector<float>> gradients;
    int64_t begin = 0;
    for (const int64_t length : lengths) {
      const double share = static_cast<double>(length) / 16;
      const Row document = row.alone(begin, length);
      sum += share * document_model->forward_backward(document.view());
      for (const Parameter& p : document_model->parameters().all()) {
        const auto own = to_host(*document_model.backend, document_model->gradient(p));
        std::vector<float>& total = gradients[p.name];
        total.resize(own.size());
        for (size_t i = 0; i < own.size(); ++i) total[i] += static_cast<float>(share) * own[i];
      }
      begin += length;
    }
    EXPECT_NEAR(loss, sum, 1e-5 * sum);
    for (const Parameter& p : row_model->parameters().all()) {
      const auto gradient = to_host(*row_model.backend, row_model->gradient(p));
      EXPECT_LE(relative_error(gradient, gradients[p.name]), 1e-4) << p.name;
    }
  }
}

// The loss of the second document changes with the first one's tokens unless attention is masked,
// and with the first one's length unless positions restart, too.
TEST(Documents, EachFlagDoesItsPart) {
  for (const bool restarts : {false, true}) {
    for (const bool masks : {false, true}) {
      SCOPED_TRACE(testing::Message() << restarts << masks);
      TrainerOnDevice model(options_of(restarts, masks));
      std::mt19937 random(5);
      Row row(random, {6, 10});
      for (size_t t = 0; t < 6; ++t) row.mask[t] = 0;
      row.mask_sum = 10;
      const double loss = model->forward_backward(row.view());
      for (size_t t = 0; t < 6; ++t) row.tokens[t] = (row.tokens[t] + 1) % 50;
      const double other_tokens = model->forward_backward(row.view());
      EXPECT_EQ(other_tokens == loss, masks);
      const double alone = model->forward_backward(row.alone(6, 10).view());
      EXPECT_EQ(std::abs(alone - loss) < 1e-6 * loss, masks && restarts);
    }
  }
}

// A single document is what a row is without the flags, to the bit.
TEST(Documents, ASingleOneChangesNothing) {
  for (const float dropout : {0.0F, 0.2F}) {
    TrainerOptions with = options_of(true, true), without = options_of(false, false);
    with.shape.attention_dropout = without.shape.attention_dropout = dropout;
    with.shape.hidden_dropout = without.shape.hidden_dropout = dropout;
    TrainerOnDevice one(with), plain(without);
    std::mt19937 random(6);
    const Row row(random, {16});
    EXPECT_EQ(one->forward_backward(row.view()), plain->forward_backward(row.view()));
    for (const Parameter& p : one->parameters().all()) {
      const auto gradient = to_host(*one.backend, one->gradient(p));
      const auto wanted = to_host(*plain.backend, plain->gradient(p));
      EXPECT_LE(relative_error(gradient, wanted), 1e-6) << p.name;
    }
  }
}

}  // namespace
}  // namespace weft
