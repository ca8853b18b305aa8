// Everything that a run trains on follows from its configuration and its consumed samples: for every
// combination of sample order, sampler, blend, batch sizes and lengths that weft-train takes, a run that is
// killed after any step and goes on with other ranks, micro-batches and threads trains and validates on what
// the undisturbed one does.
// WEFT_TEST_SEED tries other sizes and steps; WEFT_TEST_ROUNDS tries more of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "indexed_dataset/blends/build_datasets.h"
#include "indexed_dataset/blends/order_description.h"
#include "indexed_dataset/curriculum/metric_files.h"
#include "indexed_dataset/storage/file_io.h"
#include "tests/trainer/tiny_dataset.h"
#include "trainer/config/problems.h"
#include "trainer/data/batch_schedule.h"
#include "trainer/data/data_loader.h"
#include "trainer/train_setup.h"

namespace weft {
namespace {

constexpr int64_t kUnit = 12;  // batches can be divided by each number of rows that ranks share
enum class Data { kOne, kBlend, kUnweighted, kScheduledBySamples, kScheduledByTokens };
enum class Sampler { kSingle, kCyclic, kByDifficulty };
enum class Sizes { kConstant, kRampUp, kSteps };
enum class Lengths { kWhole, kTruncate, kReshape };

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

struct Row {
  std::vector<int32_t> tokens, targets;
  std::vector<float> mask;
  bool operator==(const Row&) const = default;
};

// A run's place in its samples, as a checkpoint keeps it.
struct Place {
  RunPosition train;
  int64_t valid_samples = 0;
};

struct Step {
  Place after;
  std::vector<Row> rows, validated;  // of all ranks, in the order of samples
  bool operator==(const Step& other) const {
    return after.train.iteration == other.after.train.iteration &&
           after.train.consumed.rows == other.after.train.consumed.rows &&
           after.train.consumed.tokens == other.after.train.consumed.tokens &&
           after.valid_samples == other.after.valid_samples && rows == other.rows &&
           validated == other.validated;
  }
};

// A run may go on with other values of these.
struct Ranks {
  int64_t micro_batch_size = 1, dp_size = 1, num_threads = 1, read_ahead = 0;
  bool caches = false;
};

class ResumedOrder : public testing::Test {
 protected:
  // Returns false for a combination that weft-train refuses.
  bool choose_run(OrderKind order, Data data, Sampler sampler, Sizes sizes, Lengths lengths,
                  Chooser& choose) {
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
    config_.sample_order = order;
    config_.seed = choose.between(0, 10000);
    if (sizes != Sizes::kSteps) config_.global_batch_size = 2 * kUnit;
    if (sizes == Sizes::kRampUp)
      config_.rampup_batch_size = {kUnit, kUnit, choose.between(13, 150)};
    if (sizes == Sizes::kSteps) {
      config_.step_batch_size_schedule =
          "0:12 " + std::to_string(choose.between(30, 120) * config_.seq_length) + ":36";
    }
    if (lengths != Lengths::kWhole) choose_curriculum(lengths, choose);
    // Reshaped rows are known by their masks.
    config_.eod_mask_loss = lengths != Lengths::kReshape && choose.of({false, true});
    choose_data(data, choose);
    if (sampler == Sampler::kCyclic) {
      // Refused where the blend is built, as its size differs between the programs of one order.
      if (data != Data::kOne && rules_of(order).precedes_core) return false;
      config_.dataloader_type = "cyclic";
      config_.no_data_sharding = choose.of({false, true});
    }
    if (sampler == Sampler::kByDifficulty) choose_difficulties(choose);
    return problems_of(config_).empty();
  }

  void choose_data(Data data, Chooser& choose) {
    const auto some_blend = [&]() -> std::vector<std::string> {
      return {std::to_string(choose.between(1, 9)), a_, std::to_string(choose.between(1, 9)), b_};
    };
    config_.data_path = some_blend();
    if (data == Data::kOne) config_.data_path = {a_};
    if (data == Data::kUnweighted) {
      config_.data_path = {a_, b_};
      config_.eval_interval = 5;  // each sample comes once, so there are few for validation
    }
    const bool by_tokens = data == Data::kScheduledByTokens;
    if (data != Data::kScheduledBySamples && !by_tokens) return;
    const int64_t from = choose.between(1, 100);
    nlohmann::json change = {{"blend", some_blend()}};
    change[by_tokens ? "from_tokens" : "from_samples"] =
        by_tokens ? from * config_.seq_length + choose.between(0, 5) : from;
    config_.blend_schedule = (folder_ / "schedule.json").string();
    write_file_atomically(config_.blend_schedule, nlohmann::json::array({change}).dump());
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
    const TrainingDatasets plain = build({});
    std::vector<int64_t> scores(static_cast<size_t>(plain.train->num_samples()));
    for (int64_t& score : scores) score = choose.between(0, 30);
    write_metric_files(
        folder_ / "metrics", {.name = "score"}, scores,
        describe_order(*plain.train, order_arguments(dataset_options(
                                         config_, resolve_data_paths(config_.data_paths())))));
    config_.curriculum_metrics =
        R"({"score": {"index_to_sample_path": ")" +
        (folder_ / "metrics" / "score" / "score_index_to_sample").string() +
        R"(", "difficulty_type": "percentile", "min_difficulty": 1, "max_difficulty": 20,)"
        R"( "schedule_type": "fixed_root", "schedule_config": {"total_curriculum_step": )" +
        std::to_string(choose.between(2, 15)) + R"(, "difficulty_step": 1, "root_degree": 2}}})";
    config_.curriculum_metrics_seed = choose.between(0, 10000);
  }

  Ranks any_ranks(Chooser& choose) {
    return {.micro_batch_size = choose.of({1, 2, 3}),
            .dp_size = choose.of({1, 2}),
            .num_threads = choose.between(1, 3),
            .read_ahead = choose.of({0, 3}),
            .caches = choose.of({false, true})};
  }

  Config config_of(const Ranks& ranks) const {
    Config config = config_;
    config.micro_batch_size = ranks.micro_batch_size;
    config.world_size = ranks.dp_size;
    if (ranks.caches) config.data_cache_path = (folder_ / "cache").string();
    return config;
  }
  // As a program of these ranks does that goes on with the run (train_data.cpp).
  TrainingDatasets build(const Ranks& ranks) {
    const Config config = config_of(ranks);
    DatasetOptions options = dataset_options(config, resolve_data_paths(config.data_paths()));
    if (cyclic_) options.cyclic = cyclic_;
    cyclic_ = options.cyclic;
    return build_training_datasets(options, target_sizes(config, BatchSchedule(config)));
  }

  // Takes the steps from `place` on, up to `max_steps`, as a program does that begins there.
  std::vector<Step> run(const Place& place, int64_t max_steps, const Ranks& ranks) {
    BatchSchedule schedule(config_of(ranks));
    schedule.resume_at(place.train);
    const TrainingDatasets datasets = build(ranks);
    const int64_t num_steps =
        std::min(max_steps, schedule.num_iterations() - place.train.iteration);
    std::vector<Step> steps(static_cast<size_t>(num_steps));
    for (int64_t rank = 0; rank < ranks.dp_size; ++rank)
      run_rank(place, schedule, datasets, ranks, rank, steps);
    return steps;
  }

  void run_rank(Place place, const BatchSchedule& schedule, const TrainingDatasets& datasets,
                const Ranks& ranks, int64_t rank, std::vector<Step>& steps) {
    RunPosition& position = place.train;
    DataLoaderOptions options{.micro_batch_size = ranks.micro_batch_size,
                              .dp_rank = rank,
                              .dp_size = ranks.dp_size,
                              .first_sample = place.valid_samples,
                              .vocab_size = kTinyVocabulary,
                              .num_threads = ranks.num_threads,
                              .read_ahead_batches = ranks.read_ahead};
    options.end_of_document_id = 63;
    options.eod_mask_loss = config_.eod_mask_loss;
    const int64_t valid_batch = config_.global_batch();
    DataLoader validation(*backend_, *datasets.first(Split::kValid), options,
                          {[=](int64_t) { return valid_batch; }, valid_batch});
    options.first_sample = position.consumed.rows;
    options.curriculum = schedule.curriculum();
    options.finished_iterations = position.iteration;
    options.consumed_tokens = position.consumed.tokens;
    DataLoader training(*backend_, *datasets.train, options,
                        {[&](int64_t consumed) { return schedule.global_batch_size(consumed); },
                         schedule.largest_global_batch_size()});
    for (Step& step : steps) {
      position.consumed.tokens += take_batch(training, ranks, rank, step.rows);
      position.consumed.rows += std::ssize(step.rows);
      if (++position.iteration % config_.eval_interval == 0) {
        take_batch(validation, ranks, rank, step.validated);
        place.valid_samples += std::ssize(step.validated);
      }
      step.after = place;
    }
  }

  // Puts this rank's rows to their places among those of all ranks. Returns the tokens of all.
  static int64_t take_batch(DataLoader& loader, const Ranks& ranks, int64_t rank,
                            std::vector<Row>& rows) {
    const GlobalBatch batch = loader.next();
    const int64_t B = ranks.micro_batch_size, T = batch.seq_length;
    rows.resize(static_cast<size_t>(batch.num_micro_batches * B * ranks.dp_size));
    for (int64_t own = 0; own < batch.num_micro_batches * B; ++own) {
      const int64_t at = (own / B * ranks.dp_size + rank) * B + own % B;
      rows[static_cast<size_t>(at)] = row_of(batch, own, T);
    }
    const int64_t num_tokens = batch.num_new_tokens;
    loader.release();
    return num_tokens;
  }

  static Row row_of(const GlobalBatch& batch, int64_t own, int64_t T) {
    Row row{.tokens = {batch.tokens + own * T, batch.tokens + (own + 1) * T},
            .targets = {batch.targets + own * T, batch.targets + (own + 1) * T},
            .mask = {}};
    if (batch.loss_mask) row.mask = {batch.loss_mask + own * T, batch.loss_mask + (own + 1) * T};
    return row;
  }

  // The tokens that are trained, one row after the other, are those of the samples in their order.
  void expect_samples_in_order(const std::vector<Step>& steps, Lengths lengths,
                               const Ranks& ranks) {
    const TrainingDatasets datasets = build(ranks);
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

  TemporaryFolder folder_;
  std::string a_ = write_tiny_dataset(folder_ / "a", 70),
              b_ = write_tiny_dataset(folder_ / "b", 45);
  std::unique_ptr<Backend> backend_ = create_cpu_backend(1);
  Config config_;
  std::optional<CyclicOptions> cyclic_;  // of the run's first part
};

TEST_F(ResumedOrder, IsThatOfTheUndisturbedRunForEveryCombination) {
  const uint64_t seed = from_environment("WEFT_TEST_SEED", 20261123);
  const uint64_t rounds = from_environment("WEFT_TEST_ROUNDS", 1);
  std::cout << "WEFT_TEST_SEED=" << seed << " WEFT_TEST_ROUNDS=" << rounds << "\n";
  Chooser choose(seed);
  int num_taken = 0, num_refused = 0;
  const auto try_run = [&](OrderKind order, Data data, Sampler sampler, Sizes sizes,
                           Lengths lengths) {
    cyclic_.reset();
    if (!choose_run(order, data, sampler, sizes, lengths, choose)) {
      ++num_refused;
      return;
    }
    ++num_taken;
    cyclic_.reset();
    Ranks ranks = any_ranks(choose);
    const std::vector<Step> whole = run({}, INT64_MAX, ranks);
    const int64_t num_steps = std::ssize(whole);
    ASSERT_GT(num_steps, 3);
    ASSERT_GT(whole.back().after.valid_samples, 0);
    expect_samples_in_order(whole, lengths, ranks);
    // The run is killed twice.
    const int64_t first = choose.between(1, num_steps - 1),
                  second = choose.between(first, num_steps);
    std::vector<Step> parts;
    for (const int64_t end : {first, second, num_steps}) {
      const Place from = parts.empty() ? Place{} : parts.back().after;
      for (Step& step : run(from, end - std::ssize(parts), ranks)) parts.push_back(std::move(step));
      ranks = any_ranks(choose);
    }
    ASSERT_EQ(parts.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) ASSERT_EQ(parts[i], whole[i]) << "step " << i;
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
              try_run(order, data, sampler, sizes, lengths);
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
  std::cout << num_taken << " combinations, " << num_refused << " others are refused\n";
  EXPECT_GT(num_taken, num_refused / 2);
  EXPECT_GT(num_refused, 0);
}

}  // namespace
}  // namespace weft
