#include "indexed_dataset/order/batches/length_curriculum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>

namespace weft {
namespace {

using testing::HasSubstr;

// The curriculum of BigScience's tr8-104B.
CurriculumOptions tr8(const std::string& schedule_type, int64_t root_degree = 2) {
  return {.schedule_type = schedule_type,
          .min_difficulty = 64,
          .max_difficulty = 2048,
          .total_step = 36000,
          .difficulty_step = 8,
          .root_degree = root_degree};
}

// DeepSpeed's scheduler step by step: the length is asked for until the largest one is reached.
std::vector<int64_t> lengths_step_by_step(const CurriculumOptions& options, int64_t num_steps) {
  std::vector<int64_t> lengths;
  int64_t current = options.min_difficulty;
  const double root =
      options.schedule_type == "fixed_root" ? static_cast<double>(options.root_degree) : 1.0;
  for (int64_t t = 1; t <= num_steps; ++t) {
    if (current < options.max_difficulty) {
      const double progress =
          std::pow(static_cast<double>(t) / static_cast<double>(options.total_step), 1.0 / root);
      current = static_cast<int64_t>(std::floor(
          progress * static_cast<double>(options.max_difficulty - options.min_difficulty) +
          static_cast<double>(options.min_difficulty)));
      current -= current % options.difficulty_step;
      current = std::min(current, options.max_difficulty);
    }
    lengths.push_back(current);
  }
  return lengths;
}

// Numbers of a Python program that follows DeepSpeed's scheduler step by step.
TEST(LengthCurriculum, GivesTheLengthsOfBigSciencesRecipe) {
  const LengthCurriculum linear(tr8("fixed_linear"), 2048);
  for (const auto& [iteration, length] : {std::pair{1, 64},
                                          {145, 64},
                                          {146, 72},
                                          {291, 80},
                                          {18000, 1056},
                                          {35710, 2032},
                                          {35855, 2040},
                                          {35999, 2040},
                                          {36000, 2048},
                                          {1 << 30, 2048}}) {
    EXPECT_EQ(linear.length(iteration), length) << iteration;
  }
  EXPECT_EQ(linear.stretches().size(), 249U);
  const auto tokens = [](const LengthCurriculum& curriculum) {
    int64_t sum = 0;
    for (int64_t t = 1; t <= 36000; ++t) sum += curriculum.length(t);
    return sum;
  };
  EXPECT_EQ(tokens(linear), 37873024);
  const LengthCurriculum root(tr8("fixed_root"), 2048), cubic(tr8("fixed_root", 3), 2048);
  EXPECT_EQ(root.stretches().size(), 248U);
  EXPECT_EQ(root.length(1), 72);
  EXPECT_EQ(root.length(35711), 2040);
  EXPECT_EQ(tokens(root), 49776800);
  EXPECT_EQ(cubic.length(1), 120);
  EXPECT_EQ(tokens(cubic), 55728632);
}

TEST(LengthCurriculum, AgreesWithDeepSpeedStepByStep) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const auto draw = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int round = 0; round < 200; ++round) {
    CurriculumOptions options{.schedule_type = round % 2 == 0 ? "fixed_linear" : "fixed_root",
                              .min_difficulty = draw(8, 100),
                              .total_step = draw(1, 600),
                              .difficulty_step = draw(1, 8),
                              .root_degree = draw(1, 4)};
    options.max_difficulty = options.min_difficulty + draw(0, 300);
    const LengthCurriculum curriculum(options, 400);
    const std::vector<int64_t> expected = lengths_step_by_step(options, 2000);
    for (int64_t t = 1; t <= 2000; ++t)
      ASSERT_EQ(curriculum.length(t), expected[static_cast<size_t>(t - 1)]) << round << " " << t;
  }
}

TEST(LengthCurriculum, FollowsAListOfLengths) {
  CurriculumOptions options{
      .schedule_type = "fixed_discrete", .difficulty = {8, 16, 16, 32}, .max_step = {3, 10, 11}};
  const LengthCurriculum curriculum(options, 32);
  for (const auto& [iteration, length] :
       {std::pair{1, 8}, {3, 8}, {4, 16}, {10, 16}, {11, 16}, {12, 32}, {1000, 32}})
    EXPECT_EQ(curriculum.length(iteration), length) << iteration;
  // Where the largest length was reached, DeepSpeed asks no more.
  options.difficulty = {8, 32, 16, 8};
  options.max_difficulty = 32;
  EXPECT_EQ(LengthCurriculum(options, 32).length(11), 32);
  options.max_difficulty = 0;
  EXPECT_EQ(LengthCurriculum(options, 32).length(11), 16);
}

TEST(LengthCurriculum, RefusesWhatIsNoSchedule) {
  const auto message = [](const CurriculumOptions& options) {
    try {
      LengthCurriculum(options, 2048);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  CurriculumOptions options = tr8("fixed_linear");
  EXPECT_EQ(message(options), "none");
  // With that many lengths the second one would not fit into memory.
  for (const int64_t too_many : {int64_t{4096}, int64_t{1} << 50}) {
    options = tr8("fixed_linear");
    options.max_difficulty = options.total_step = too_many;
    EXPECT_THAT(message(options),
                HasSubstr("--curriculum-max-difficulty " + std::to_string(too_many) +
                          " is more than --seq-length 2048"));
  }
  options = tr8("fixed_linear");
  options.max_difficulty = 32;
  EXPECT_THAT(message(options), HasSubstr("--curriculum-max-difficulty 32 is less than"));
  options = tr8("fixed_linear");
  options.min_difficulty = 4;
  EXPECT_THAT(message(options), HasSubstr("sequences of 0 tokens from iteration 1 on"));
  options.total_step = 0;
  EXPECT_THAT(message(options), HasSubstr("--curriculum-total-step must be positive (got 0)"));
  options.schedule_type = "linear";
  EXPECT_THAT(message(options), HasSubstr("linear is none of fixed_linear, fixed_root, fixed_dis"));
  options = {.schedule_type = "fixed_discrete", .difficulty = {8, 16}, .max_step = {1, 2}};
  EXPECT_THAT(message(options), HasSubstr("--curriculum-difficulty has 2 values and"));
  options.difficulty.push_back(32);
  options.max_step = {5, 5};
  EXPECT_THAT(message(options), HasSubstr("max-step 5 ends before it begins"));
  options.mode = "pack";
  EXPECT_THAT(message(options), HasSubstr("--curriculum-mode pack is none of truncate, reshape"));
}

TEST(LengthCurriculum, TruncatingTakesTheBeginningOfEachSample) {
  const LengthCurriculum curriculum(
      {.schedule_type = "fixed_discrete", .difficulty = {8, 32}, .max_step = {2}}, 32);
  LengthCurriculum::Consumed consumed = curriculum.after({0, 0}, 1, 4);
  EXPECT_EQ(consumed.rows, 4);
  EXPECT_EQ(consumed.tokens, 32);
  const LengthCurriculum::Row row = curriculum.row(consumed, 2, 3);
  EXPECT_EQ(row.sample, 7);
  EXPECT_EQ(row.begin, 0);
  EXPECT_EQ(row.length, 8);
  EXPECT_EQ(row.num_repeated, 0);
  EXPECT_EQ(curriculum.samples_begun(consumed), 4);
}

TEST(LengthCurriculum, ReshapingTrainsEveryTokenOnceAndInOrder) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 100; ++round) {
    const auto L = static_cast<int64_t>(20 + random() % 60);
    CurriculumOptions options{.schedule_type = "fixed_discrete", .mode = "reshape"};
    for (int i = 0; i < 4; ++i) {
      options.difficulty.push_back(
          static_cast<int64_t>(2 + random() % static_cast<uint64_t>(L - 1)));
      if (i > 0) options.max_step.push_back(5 * i);
    }
    const LengthCurriculum curriculum(options, L);
    int64_t trained = 0;  // all tokens before this one of the concatenated samples
    LengthCurriculum::Consumed consumed;
    for (int64_t iteration = 1; iteration <= 25; ++iteration) {
      const auto batch = static_cast<int64_t>(1 + random() % 9);
      for (int64_t idx = 0; idx < batch; ++idx) {
        const LengthCurriculum::Row row = curriculum.row(consumed, iteration, idx);
        ASSERT_EQ(row.length, curriculum.length(iteration));
        ASSERT_GE(row.begin, 0);
        ASSERT_LE(row.begin + row.length, L);
        ASSERT_LT(row.num_repeated, row.length);
        ASSERT_EQ(row.sample * L + row.begin + row.num_repeated, trained);
        trained += row.length - row.num_repeated;
        ASSERT_LE(trained, (row.sample + 1) * L);
      }
      consumed = curriculum.after(consumed, iteration, batch);
      ASSERT_EQ(consumed.tokens, trained);
      ASSERT_EQ(curriculum.samples_begun(consumed), (trained + L - 1) / L);
    }
  }
}

TEST(LengthCurriculum, WithoutOptionsAllRowsAreWholeSamples) {
  const LengthCurriculum none(32);
  EXPECT_FALSE(none.exists());
  EXPECT_EQ(none.length(1), 32);
  EXPECT_EQ(none.after({8, 256}, 5, 4).tokens, 384);
  EXPECT_EQ(none.row({8, 256}, 5, 2).sample, 10);
}

}  // namespace
}  // namespace weft
