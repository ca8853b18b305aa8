// Everything that a run trains on follows from its configuration and its consumed samples: for
// every combination of sample order, sampler, blend, batch sizes and lengths that weft-train takes,
// a run that is killed after any step and goes on from its checkpoint, with other data-parallel
// ranks or micro-batches, trains and validates on what the undisturbed one does.
// WEFT_TEST_SEED tries other sizes and steps; WEFT_TEST_ROUNDS tries more of them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "indexed_dataset/order/blends/order_description.h"
#include "indexed_dataset/order/curriculum/metric_files.h"
#include "tests/trainer/data/combinations.h"
#include "tests/trainer/data/parts_of_run.h"
#include "trainer/problems/problems.h"

namespace weft {
namespace {

constexpr int64_t kUnit = 12;  // batches can be divided by each number of rows that ranks share
uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

class Chooser {
 public:
  explicit Chooser(uint64_t seed) : random_(seed) {}
  int64_t between(int64_t first, int64_t last) {
    return first + static_cast<int64_t>(random_() % static_cast<uint64_t>(last - first + 1));
  }
  template <typename T>
  T of(std::initializer_list<T> values) {
    return values.begin()[between(0, std::ssize(values) - 1)];
  }

 private:
  std::mt19937_64 random_;
};

class ResumedOrder : public PartsOfRun {
 protected:
  void choose_run(const Combination& c, Chooser& choose) {
    config_ = {};
    config_.num_layers = 2;
    config_.hidden_size = 32;
    config_.num_attention_heads = 4;
    config_.lr = 1e-3;
    config_.micro_batch_size = 1;
    config_.seq_length = config_.max_position_embeddings.emplace(choose.between(9, 30));
    config_.train_samples = choose.between(150, 260);
    config_.split = "80,20,0";
    config_.eval_iters = 1;
    config_.eval_interval = choose.between(2, 4);
    config_.sample_order = c.order;
    config_.seed = choose.between(0, 10000);
    if (c.sizes != Sizes::kSteps) config_.global_batch_size = 2 * kUnit;
    if (c.sizes == Sizes::kRampUp)
      config_.rampup_batch_size = {kUnit, kUnit, choose.between(13, 150)};
    if (c.sizes == Sizes::kSteps) {
      config_.step_batch_size_schedule =
          "0:12 " + std::to_string(choose.between(30, 120) * config_.seq_length) + ":36";
    }
    if (c.lengths != Lengths::kWhole) choose_curriculum(c.lengths, choose);
    // Reshaped rows are known by their masks.
    config_.eod_mask_loss = c.lengths != Lengths::kReshape && choose.of({false, true});
    choose_data(c.data, choose);
    if (c.sampler == Sampler::kByDifficulty) choose_difficulties(choose);
    if (c.sampler != Sampler::kCyclic) return;
    config_.dataloader_type = "cyclic";
    config_.no_data_sharding = choose.of({false, true});
  }

  void choose_data(Data data, Chooser& choose) {
    const auto some_blend = [&]() -> std::vector<std::string> {
      return {std::to_string(choose.between(1, 9)), a_, std::to_string(choose.between(1, 9)), b_};
    };
    config_.paths.data_path = some_blend();
    if (data == Data::kOne) config_.paths.data_path = {a_};
    if (data == Data::kUnweighted) {
      config_.paths.data_path = {a_, b_};
      config_.eval_interval = 5;  // each sample comes once, so there are few for validation
    }
    const bool by_tokens = data == Data::kScheduledByTokens;
    if (data != Data::kScheduledBySamples && !by_tokens) return;
    const int64_t from = choose.between(1, 100);
    nlohmann::json change = {{"blend", some_blend()}};
    change[by_tokens ? "from_tokens" : "from_samples"] =
        by_tokens ? from * config_.seq_length + choose.between(0, 5) : from;
    config_.paths.blend_schedule = (folder_ / "schedule.json").string();
    write_file_atomically(config_.paths.blend_schedule, nlohmann::json::array({change}).dump());
  }

  void choose_curriculum(Lengths lengths, Chooser& choose) {
    const int64_t L = config_.seq_length;
    CurriculumOptions& curriculum = config_.curriculum;
    curriculum.mode = lengths == Lengths::kTruncate ? "truncate" : "reshape";
    curriculum.schedule_type = choose.of({"fixed_linear", "fixed_root", "fixed_discrete"});
    if (curriculum.schedule_type == "fixed_discrete") {
      const int64_t first = choose.between(2, L / 2);
      curriculum.difficulty = {first, choose.between(first, L), L};
      curriculum.max_step = {choose.between(1, 4), choose.between(5, 9)};
    } else {
      curriculum.min_difficulty = choose.between(4, L / 2);
      curriculum.max_difficulty = L;
      curriculum.total_step = choose.between(2, 15);
      curriculum.difficulty_step = choose.between(1, 2);
    }
  }

  // Random scores, of which all are admitted at a random step.
  void choose_difficulties(Chooser& choose) {
    Place start;
    const TrainingDatasets plain = build(start, {});
    std::vector<int64_t> scores(static_cast<size_t>(plain.train->num_samples()));
    for (int64_t& score : scores) score = choose.between(0, 30);
    write_metric_files(
        folder_ / "metrics", {.name = "score"}, scores,
        describe_order(*plain.train, sample_order(config_, resolve_data_paths(config_.paths))));
    config_.curriculum_metrics =
        R"({"score": {"index_to_sample_path": ")" +
        (folder_ / "metrics" / "score" / "score_index_to_sample").string() +
        R"(", "difficulty_type": "percentile", "min_difficulty": 1, "max_difficulty": 20,)"
        R"( "schedule_type": "fixed_root", "schedule_config": {"total_curriculum_step": )" +
        std::to_string(choose.between(2, 15)) + R"(, "difficulty_step": 1, "root_degree": 2}}})";
    config_.curriculum_metrics_seed = choose.between(0, 10000);
  }

  // Returns true if weft-train takes the run, and expects that it refuses what the tables say, and
  // nothing else.
  bool is_taken(const Combination& c) {
    std::vector<testing::Matcher<std::string>> expected;
    for (const Refusal& refusal : kRefusedOptions) {
      if (refusal.applies(c)) expected.push_back(testing::HasSubstr(refusal.words));
    }
    const std::vector<std::string> problems = problems_of(config_);
    EXPECT_THAT(problems, testing::UnorderedElementsAreArray(expected));
    if (!problems.empty()) return false;
    if (!kRefusedBlend.applies(c)) return true;
    Place start;
    EXPECT_THAT([&] { build(start, {}); }, testing::ThrowsMessage<std::invalid_argument>(
                                               testing::HasSubstr(kRefusedBlend.words)));
    return false;
  }

  static Ranks any_ranks(Chooser& choose) {
    return {.micro_batch_size = choose.of({1, 2, 3}),
            .dp_size = choose.of({1, 2}),
            .num_threads = choose.between(1, 3),
            .read_ahead = choose.of({0, 3}),
            .caches = choose.of({false, true})};
  }
  // The run goes on with other data-parallel ranks, and then with other micro-batches.
  static std::vector<Ranks> ranks_of_parts(Chooser& choose) {
    std::vector<Ranks> parts = {any_ranks(choose), any_ranks(choose), any_ranks(choose)};
    parts[1].dp_size = 3 - parts[0].dp_size;
    parts[2].dp_size = parts[1].dp_size;
    parts[1].micro_batch_size = parts[0].micro_batch_size;
    parts[2].micro_batch_size = parts[0].micro_batch_size % 3 + 1;
    return parts;
  }

  // Kills the run twice.
  void expect_equal_parts(const std::vector<Step>& whole, const std::vector<Ranks>& ranks,
                          Chooser& choose) {
    const int64_t num_steps = std::ssize(whole);
    const int64_t first = choose.between(1, num_steps - 1);
    const int64_t ends[] = {first, choose.between(first, num_steps), num_steps};
    std::vector<Step> parts;
    Place place;
    for (size_t part = 0; part < ranks.size(); ++part) {
      if (part > 0) {
        save(place, ranks[part - 1]);
        place = load(ranks[part]);
      }
      for (Step& step : run(place, ends[part] - std::ssize(parts), ranks[part]))
        parts.push_back(std::move(step));
      place = parts.back().after;
    }
    ASSERT_EQ(parts.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) ASSERT_EQ(parts[i], whole[i]) << "step " << i;
  }

  // The tokens that are trained, one row after the other, are those of the samples in their order.
  void expect_samples_in_order(const std::vector<Step>& steps, Lengths lengths,
                               const Ranks& ranks) {
    Place start;
    const TrainingDatasets datasets = build(start, ranks);
    const auto length = static_cast<size_t>(config_.seq_length);
    std::vector<int32_t> sample(length + 1);
    int64_t next = 0;
    size_t taken = length;  // labels of the last sample
    for (const Step& step : steps) {
      for (const Row& row : step.rows) {
        for (size_t t = 0; t < row.targets.size(); ++t) {
          const bool is_repeated = lengths == Lengths::kReshape && row.mask[t] == 0;
          if (is_repeated) continue;
          if (taken == length || (t == 0 && lengths != Lengths::kReshape)) {
            datasets.train->sample(next++, sample.data());
            taken = 0;
          }
          ASSERT_EQ(row.tokens[t], sample[taken]);
          ASSERT_EQ(row.targets[t], sample[++taken]);
        }
      }
    }
  }
};

TEST_F(ResumedOrder, IsThatOfTheUndisturbedRunForEveryCombination) {
  const uint64_t seed = from_environment("WEFT_TEST_SEED", 20261123);
  const uint64_t rounds = from_environment("WEFT_TEST_ROUNDS", 1);
  std::cout << "WEFT_TEST_SEED=" << seed << " WEFT_TEST_ROUNDS=" << rounds << "\n";
  Chooser choose(seed);
  int num_tried = 0, num_taken = 0;
  const auto try_run = [&](const Combination& c) {
    choose_run(c, choose);
    ++num_tried;
    if (!is_taken(c)) return;
    ++num_taken;
    const std::vector<Ranks> ranks = ranks_of_parts(choose);
    const std::vector<Step> whole = run({}, INT64_MAX, ranks[0]);
    ASSERT_GT(std::ssize(whole), 3);
    ASSERT_GT(whole.back().after.valid_samples, 0);
    expect_samples_in_order(whole, c.lengths, ranks[0]);
    expect_equal_parts(whole, ranks, choose);
  };
  for (uint64_t round = 0; round < rounds; ++round) {
    for (const auto& [name, order] : kOrderKinds) {
      for (const Data data : {Data::kOne, Data::kBlend, Data::kUnweighted,
                              Data::kScheduledBySamples, Data::kScheduledByTokens}) {
        for (const Sampler sampler : {Sampler::kSingle, Sampler::kCyclic, Sampler::kByDifficulty}) {
          for (const Sizes sizes : {Sizes::kConstant, Sizes::kRampUp, Sizes::kSteps}) {
            for (const Lengths lengths : {Lengths::kWhole, Lengths::kTruncate, Lengths::kReshape}) {
              SCOPED_TRACE(fmt::format(
                  "WEFT_TEST_SEED={} round {} --sample-order {}, data {}, sampler {}, sizes {}, "
                  "lengths {}",
                  seed, round, name, static_cast<int>(data), static_cast<int>(sampler),
                  static_cast<int>(sizes), static_cast<int>(lengths)));
              try_run({order, data, sampler, sizes, lengths});
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(num_tried, static_cast<int>(rounds) * kNumCombinations);
  EXPECT_EQ(num_taken, static_cast<int>(rounds) * kNumTaken);
}

TEST_F(ResumedOrder, StaysWhereAScheduleIsChangedBehindTheSamplesThatWereTaken) {
  Chooser choose(7);
  for (const auto& [name, order] : kOrderKinds) {
    SCOPED_TRACE(name);
    choose_run(
        {order, Data::kScheduledBySamples, Sampler::kSingle, Sizes::kConstant, Lengths::kWhole},
        choose);
    const auto write_schedule = [&](const nlohmann::json& later) {
      nlohmann::json changes = {{{"from_samples", 30}, {"blend", {"3", a_, "1", b_}}}};
      changes.insert(changes.end(), later.begin(), later.end());
      write_file_atomically(config_.paths.blend_schedule, changes.dump());
    };
    const nlohmann::json after_three_steps = {
        {{"from_samples", 3 * 2 * kUnit}, {"blend", {"1", a_, "5", b_}}},
        {{"from_samples", 100}, {"blend", {"9", a_, "1", b_}}}};
    write_schedule(after_three_steps);
    const std::vector<Step> whole = run({}, INT64_MAX, {});
    write_schedule({{{"from_samples", 90}, {"blend", {"1", b_}}}});
    std::vector<Step> parts = run({}, 3, {});
    EXPECT_NE(run(parts.back().after, INT64_MAX, {}).front(), whole[3]);
    save(parts.back().after, {});
    write_schedule(after_three_steps);
    for (Step& step : run(load({}, /*num_warnings=*/1), INT64_MAX, {}))
      parts.push_back(std::move(step));
    ASSERT_EQ(parts.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) ASSERT_EQ(parts[i], whole[i]) << "step " << i;
    // An entry that was followed cannot be taken back.
    save(parts[3].after, {});
    write_schedule({});
    EXPECT_THROW(load({}), std::invalid_argument);
  }
}

}  // namespace
}  // namespace weft
