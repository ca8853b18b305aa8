#include "indexed_dataset/order/curriculum/metric_curriculum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/order/batches/batch_size_plan.h"
#include "indexed_dataset/order/blends/build_datasets.h"
#include "indexed_dataset/order/blends/order_description.h"
#include "indexed_dataset/order/curriculum/integer_rows.h"
#include "indexed_dataset/order/curriculum/metric_files.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string metric_json(const std::filesystem::path& folder, const std::string& name,
                        const std::string& type, const std::string& schedule) {
  const std::string prefix = (folder / name / name).string();
  return "\"" + name + "\": {\"index_to_sample_path\": \"" + prefix +
         "_index_to_sample\", \"index_to_metric_path\": \"" + prefix +
         "_index_to_metric\", \"difficulty_type\": \"" + type +
         "\", \"clustering_type\": \"schedule_based\", " + schedule + "}";
}

std::vector<int64_t> draws_of(const OpenedCurriculum& opened) {
  std::vector<int64_t> draws;
  for (int64_t i = 0; i < opened.order->size(); ++i) draws.push_back(opened.order->sample_at(i));
  return draws;
}

// The example of README.md beside metric_curriculum.h.
TEST(MetricCurriculum, GoldenExample) {
  const TemporaryFolder folder;
  const std::vector<int64_t> values = {5, 1, 3, 9, 2, 7};
  write_metric_files(folder / "metrics", {.name = "length"}, values, {{"of", "nothing"}});
  const MetricCurriculum curriculum{
      .metrics = "{" +
                 metric_json(folder / "metrics", "length", "value",
                             "\"min_difficulty\": 2, \"max_difficulty\": 9, \"schedule_type\": "
                             "\"fixed_discrete\", \"schedule_config\": {\"difficulty\": [2, 5, 9], "
                             "\"max_step\": [2, 4]}") +
                 "}",
      .seed = 1234,
      .global_batch_size = 2};
  const CurriculumRequest request{
      .num_samples = 6, .num_draws = 16, .sequence_length = 4, .check_order = {}};
  EXPECT_THAT(draws_of(open_curriculum(curriculum, request)),
              ElementsAre(4, 1, 1, 4, 2, 0, 4, 1, 2, 3, 0, 5, 3, 0, 2, 5));
}

struct Random {
  explicit Random(uint32_t seed) : engine(seed) {}
  int64_t operator()(int64_t from, int64_t to) {
    return from + static_cast<int64_t>(engine() % static_cast<uint32_t>(to - from + 1));
  }
  std::mt19937 engine;
};

std::string random_schedule(Random& random, int64_t min, int64_t max) {
  std::string text = "\"min_difficulty\": " + std::to_string(min) +
                     ", \"max_difficulty\": " + std::to_string(max) + ", ";
  const int64_t kind = random(0, 2);
  if (kind == 2) {
    const int64_t middle = random(min, max);
    return text + "\"schedule_type\": \"fixed_discrete\", \"schedule_config\": {\"difficulty\": [" +
           std::to_string(min) + ", " + std::to_string(middle) + ", " + std::to_string(max) +
           "], \"max_step\": [" + std::to_string(random(1, 6)) + ", " +
           std::to_string(random(7, 15)) + "]}";
  }
  text += kind == 0 ? "\"schedule_type\": \"fixed_linear\"" : "\"schedule_type\": \"fixed_root\"";
  return text +
         ", \"schedule_config\": {\"total_curriculum_step\": " + std::to_string(random(1, 25)) +
         ", \"difficulty_step\": 1" + (kind == 0 ? "}" : ", \"root_degree\": 2}");
}

// Says from the values alone whether a metric admits a sample.
struct PlainMetric {
  std::vector<int64_t> values;
  CurriculumMetric metric;
  std::vector<DifficultyStretch> stretches;
  std::vector<int64_t> rank;  // of each sample among all, by value and number

  bool admits(int64_t sample, int64_t iteration) const {
    int64_t difficulty = 0;
    for (const DifficultyStretch& stretch : stretches) {
      if (stretch.first_iteration <= iteration) difficulty = stretch.difficulty;
    }
    if (!metric.by_percentile) return values[static_cast<size_t>(sample)] <= difficulty;
    const int64_t parts = metric.schedule.max_difficulty;
    return difficulty >= parts ||
           rank[static_cast<size_t>(sample)] < std::ssize(values) / parts * difficulty;
  }
};

std::vector<std::vector<uint16_t>> random_documents(uint32_t seed, int count) {
  std::mt19937 random(seed);
  std::vector<std::vector<uint16_t>> documents(static_cast<size_t>(count));
  for (auto& document : documents) {
    document.resize(1 + random() % 30);
    for (uint16_t& token : document) token = static_cast<uint16_t>(random() % 100);
  }
  return documents;
}

// Random orders, blends, ramp-ups, metrics and schedules. Each run is built twice, as one that was
// killed builds it again, and its samples are those that the definition allows: admitted, and none
// twice before all are used up. Ranks of any arrangement take together the samples of their
// iteration.
TEST(MetricCurriculum, RandomRunsDrawWhatTheDefinitionAllowsAndResumeAnywhere) {
  const uint32_t seed = 20261123;
  std::cout << "seed " << seed << "\n";
  const TemporaryFolder folder(memory_folder());
  write_dataset<uint16_t>(folder / "a", TokenType::kUInt16, random_documents(1, 40));
  write_dataset<uint16_t>(folder / "b", TokenType::kUInt16, random_documents(2, 70));
  for (uint32_t round = 0; round < 25; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Random random(seed + round);
    SampleOrder options;
    const std::string a = (folder / "a").string(), b = (folder / "b").string();
    const std::vector<std::vector<std::string>> blends = {{a}, {"0.3", a, "0.7", b}, {a, b}};
    options.blends = resolve_data_paths({.data_path = blends[static_cast<size_t>(random(0, 2))]});
    options.split = "100,0,0";
    options.sample_order = kOrderKinds[random(0, std::ssize(kOrderKinds) - 1)].second;
    options.seq_length = 8;
    const int64_t num_draws = random(20, 400);
    const TrainingDatasets plain = build_training_datasets(options, {.train_samples = num_draws});
    const int64_t num_samples = plain.train->num_samples();

    std::vector<PlainMetric> metrics(static_cast<size_t>(random(1, 2)));
    std::string json;
    for (size_t m = 0; m < metrics.size(); ++m) {
      PlainMetric& metric = metrics[m];
      for (int64_t i = 0; i < num_samples; ++i) metric.values.push_back(random(0, 9));
      metric.values[0] = 0;  // the same sample is easy for all, so that there is one to begin with
      std::vector<int64_t> sorted(metric.values.size());
      for (size_t i = 0; i < sorted.size(); ++i) sorted[i] = static_cast<int64_t>(i);
      std::stable_sort(sorted.begin(), sorted.end(), [&](int64_t x, int64_t y) {
        return metric.values[static_cast<size_t>(x)] < metric.values[static_cast<size_t>(y)];
      });
      metric.rank.resize(sorted.size());
      for (size_t i = 0; i < sorted.size(); ++i)
        metric.rank[static_cast<size_t>(sorted[i])] = static_cast<int64_t>(i);
      const std::string name = "m" + std::to_string(m);
      write_metric_files(folder / "metrics", {.name = name}, metric.values,
                         describe_order(*plain.train, options));
      const bool by_percentile = num_samples >= 10 && random(0, 1) == 1;
      json += (m == 0 ? "{" : ", ") +
              metric_json(folder / "metrics", name, by_percentile ? "percentile" : "value",
                          random_schedule(random, by_percentile ? 1 : 0, by_percentile ? 10 : 9));
    }
    json += "}";
    for (size_t m = 0; m < metrics.size(); ++m) {
      metrics[m].metric = parse_curriculum_metrics(json)[m];
      metrics[m].stretches = difficulty_stretches(metrics[m].metric.schedule, "");
    }
    const int64_t batch = random(0, 1) == 0 ? 4 : 12;
    options.draws = MetricCurriculum{.metrics = json,
                                     .seed = random(0, 99),
                                     .global_batch_size = batch,
                                     .rampup_batch_size = {}};
    if (batch == 12 && random(0, 1) == 1) options.draws->rampup_batch_size = {4, 4, random(10, 60)};
    if (random(0, 1) == 1) options.cache_path = (folder / "cache").string();

    std::optional<TrainingDatasets> run, resumed;
    try {
      run = build_training_datasets(options, {.train_samples = num_draws});
      resumed = build_training_datasets(options, {.train_samples = num_draws});
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), HasSubstr("admits no sample at iteration 1"));
      for (int64_t i = 0; i < num_samples; ++i) {
        EXPECT_FALSE(std::all_of(metrics.begin(), metrics.end(),
                                 [&](const PlainMetric& one) { return one.admits(i, 1); }));
      }
      continue;
    }
    const DrawnOrder& order = *run->train->drawn_order();
    ASSERT_EQ(order.size(), num_draws);
    const BatchSizePlan plan(batch, options.draws->rampup_batch_size);
    std::set<int64_t> used;
    for (int64_t consumed = 0, iteration = 1; consumed < num_draws; ++iteration) {
      const int64_t end = std::min(consumed + plan.batch_size(consumed), num_draws);
      std::set<int64_t> pool;
      for (int64_t i = 0; i < num_samples; ++i) {
        if (std::all_of(metrics.begin(), metrics.end(),
                        [&](const PlainMetric& one) { return one.admits(i, iteration); }))
          pool.insert(i);
      }
      for (int64_t i = consumed; i < end; ++i) {
        const int64_t sample = order.sample_at(i);
        if (used.size() == pool.size()) used.clear();
        ASSERT_TRUE(pool.contains(sample)) << "draw " << i << " of iteration " << iteration;
        ASSERT_TRUE(used.insert(sample).second) << "draw " << i << " comes too early";
      }
      // The iteration, as ranks of another arrangement take it after a resume.
      if (end - consumed == plan.batch_size(consumed)) {
        const int64_t size = end - consumed, micro = random(0, 1) == 0 ? 1 : 2;
        const int64_t dp = random(0, 1) == 0 ? 2 : 1;
        std::vector<int64_t> taken;
        for (int64_t rank = 0; rank < dp; ++rank) {
          for (int64_t k = 0; k < size / (micro * dp); ++k) {
            for (int64_t s = 0; s < micro; ++s)
              taken.push_back(resumed->train->drawn_order()->sample_at(consumed + k * micro * dp +
                                                                       rank * micro + s));
          }
        }
        std::vector<int64_t> expected;
        for (int64_t i = consumed; i < end; ++i) expected.push_back(order.sample_at(i));
        std::sort(taken.begin(), taken.end());
        std::sort(expected.begin(), expected.end());
        ASSERT_EQ(taken, expected);
      }
      consumed = end;
    }
    // A longer run begins with the same draws, and position i of the run shows the drawn sample.
    const CurriculumRequest longer{.num_samples = num_samples,
                                   .num_draws = num_draws + 50,
                                   .sequence_length = 8,
                                   .check_order = {}};
    const OpenedCurriculum more = open_curriculum(*options.draws, longer);
    for (int64_t i = 0; i < num_draws; ++i) {
      ASSERT_EQ(more.order->sample_at(i), order.sample_at(i));
      ASSERT_EQ(run->train->sample_parts(i), plain.train->sample_parts(order.sample_at(i)));
    }
  }
}

constexpr const char* kGrow =
    "\"min_difficulty\": 1, \"max_difficulty\": 9, \"schedule_type\": \"fixed_linear\", "
    "\"schedule_config\": {\"total_curriculum_step\": 4, \"difficulty_step\": 1}";

TEST(MetricCurriculum, RefusesIndexesOfOtherSamples) {
  const TemporaryFolder folder;
  const std::vector<int64_t> values = {5, 1, 3, 9, 2, 7};
  write_metric_files(folder / "metrics", {.name = "x"}, values, nlohmann::ordered_json::object());
  const MetricCurriculum curriculum{
      .metrics = "{" + metric_json(folder / "metrics", "x", "value", kGrow) + "}"};
  const auto refuses = [&](int64_t num_samples, const std::string& what) {
    EXPECT_THAT(
        [&] {
          open_curriculum(curriculum, {.num_samples = num_samples,
                                       .num_draws = 8,
                                       .sequence_length = 4,
                                       .check_order = {}});
        },
        ThrowsMessage<std::runtime_error>(HasSubstr(what)));
  };
  refuses(7, "an index of 6 samples, and the training set has 7");
  const auto prefix = (folder / "metrics" / "x" / "x").string();
  const std::vector<int64_t> twice = {1, 4, 2, 0, 5, 5}, ends = {1, 2, 3, 4, 5, 6};
  write_integer_rows(prefix + "_index_to_sample", twice, ends);
  EXPECT_THROW(
      open_curriculum(curriculum,
                      {.num_samples = 6, .num_draws = 8, .sequence_length = 4, .check_order = {}}),
      ChecksumMismatch);
  // DeepSpeed's files have no stamp; their rows are checked.
  remove_file(prefix + ".json");
  refuses(6, "sample 5 stands there twice");
  const std::vector<int64_t> beyond = {1, 4, 2, 0, 6, 5};
  write_integer_rows(prefix + "_index_to_sample", beyond, ends);
  refuses(6, "sample 6 stands there but there are 6");
  const std::vector<int64_t> descending = {1, 2, 3, 7, 5, 9};
  write_integer_rows(prefix + "_index_to_metric", descending);
  refuses(6, "not one ascending value for each row");
}

// The bag as README.md of the room describes it, one draw after the other.
std::vector<int64_t> simple_draws(const std::vector<int64_t>& admitted,
                                  const std::vector<PoolStage>& stages, uint64_t seed,
                                  int64_t num_draws) {
  std::vector<int64_t> draws, bag;
  int64_t pool_size = 0;
  for (int64_t i = 0; i < num_draws; ++i) {
    for (const PoolStage& stage : stages) {
      if (stage.first_draw != i) continue;
      bag.insert(bag.end(), admitted.begin() + pool_size, admitted.begin() + stage.pool_size);
      pool_size = stage.pool_size;
    }
    if (bag.empty()) bag.assign(admitted.begin(), admitted.begin() + pool_size);
    seed += 0x9E3779B97F4A7C15;
    uint64_t x = seed;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    x ^= x >> 31;
    const uint64_t size = bag.size();  // floor(x * size / 2^64), in two halves
    const uint64_t place = ((x >> 32) * size + ((x & UINT32_MAX) * size >> 32)) >> 32;
    draws.push_back(bag[place]);
    bag[place] = bag.back();
    bag.pop_back();
  }
  return draws;
}

TEST(DrawnOrder, EqualsTheSimpleLoopForRandomStages) {
  constexpr uint32_t kSeed = 20261125;
  for (uint32_t trial = 0; trial < 200 && !HasFailure(); ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial) + " of seed " + std::to_string(kSeed));
    Random random(kSeed + trial);
    std::vector<int64_t> admitted(static_cast<size_t>(random(1, trial % 3 == 0 ? 20 : 2000)));
    std::iota(admitted.begin(), admitted.end(), random(0, 9));
    if (trial % 10 == 0) admitted.front() = int64_t{1} << 40;  // draws of 64 bits
    const auto count = std::ssize(admitted);
    std::vector<PoolStage> stages = {{.first_draw = 0, .pool_size = random(1, count)}};
    for (int64_t left = random(0, 8); left > 0; --left)
      stages.push_back({.first_draw = stages.back().first_draw + random(1, 150),
                        .pool_size = random(stages.back().pool_size, count)});
    const int64_t num_draws = random(0, 3000);
    const Draws draws = draw_samples(admitted, stages, trial, num_draws);
    const std::vector<int64_t> made = std::visit(
        [](const auto& all) { return std::vector<int64_t>(all.begin(), all.end()); }, draws);
    EXPECT_EQ(made, simple_draws(admitted, stages, trial, num_draws));
  }
}

// A file of draws that was damaged in the cache names no sample that is not there.
TEST(MetricCurriculum, RefusesADrawThatIsNoSample) {
  const TemporaryFolder folder;
  write_dataset<uint16_t>(folder / "a", TokenType::kUInt16, random_documents(1, 40));
  SampleOrder options;
  options.blends = resolve_data_paths({.data_path = {(folder / "a").string()}});
  options.split = "100,0,0";
  options.seq_length = 8;
  const TrainingDatasets datasets = build_training_datasets(options, {.train_samples = 20});
  const auto num_samples = static_cast<uint32_t>(datasets.train->num_samples());
  const auto draws = std::make_shared<const std::vector<uint32_t>>(
      std::vector<uint32_t>{num_samples - 1, num_samples, UINT32_MAX});
  const BlendedDataset train(*datasets.train,
                             std::make_shared<const DrawnOrder>(std::span(*draws), draws));
  EXPECT_EQ(train.locate(0).sample_idx, num_samples - 1);
  for (const int64_t damaged : {1, 2}) {
    EXPECT_THAT([&] { train.locate(damaged); },
                ThrowsMessage<std::runtime_error>(HasSubstr("of the curriculum is sample")));
  }
}

TEST(MetricCurriculum, SaysWhatIsWrongWithItsJson) {
  const auto refuses = [](const std::string& json, const std::string& what) {
    EXPECT_THAT([&] { parse_curriculum_metrics(json); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(what)));
  };
  const auto metric = [](const std::string& type, const std::string& schedule) {
    return "{" + metric_json("f", "x", type, schedule) + "}";
  };
  EXPECT_EQ(parse_curriculum_metrics(metric("percentile", kGrow)).size(), 1);
  refuses("[1]", "they should be a JSON object");
  refuses("{", "curriculum metrics: ");
  refuses("{}", "they should be a JSON object");
  refuses("{\"x\": 5}", "curriculum metric x: it should be an object");
  refuses("{\"x\": {}}", "curriculum metric x: \"index_to_sample_path\" is missing");
  refuses(metric("rank", kGrow), "difficulty_type rank is none of value, percentile");
  refuses(metric("value", std::string(kGrow) + ", \"speed\": 1"), "\"speed\" is not known");
  const auto schedule = [](const std::string& type, const std::string& config,
                           const std::string& max = "9") {
    return "\"min_difficulty\": 1, \"max_difficulty\": " + max + ", \"schedule_type\": \"" + type +
           "\", \"schedule_config\": {" + config + "}";
  };
  refuses(
      metric("value", schedule("custom", "\"total_curriculum_step\": 4, \"difficulty_step\": 1")),
      "schedule-type custom is none of");
  refuses(metric("value", schedule("fixed_linear", "\"difficulty_step\": 1")),
          "\"total_curriculum_step\" is missing");
  refuses(metric("value", schedule("fixed_discrete", "\"difficulty\": [3, 2], \"max_step\": [1]")),
          "its difficulty shrinks at iteration 2");
  refuses(metric("percentile",
                 schedule("fixed_discrete", "\"difficulty\": [3, 12], \"max_step\": [1]", "0")),
          "percentiles are from 1 to max_difficulty, which is 0");
  const std::string steps = "\"total_curriculum_step\": 4, \"difficulty_step\": 1";
  for (const std::string huge :
       {"9007199254740992", "18446744073709551615", "-9223372036854775808"})
    refuses(metric("value", schedule("fixed_linear", steps, huge)),
            "\"max_difficulty\" is " + huge + ", it should be an integer between -2^53 and 2^53");
  refuses(metric("value", schedule("fixed_discrete",
                                   "\"difficulty\": [3, 5], \"max_step\": [9223372036854775807]")),
          "it should be a list of integers between -2^53 and 2^53");
  refuses(metric("value", schedule("fixed_linear",
                                   "\"total_curriculum_step\": 99000000, \"difficulty_step\": 1",
                                   "50000000")),
          "more than 10 million difficulties");
}

}  // namespace
}  // namespace weft
