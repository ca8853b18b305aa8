// Everything that a run trains on follows from its configuration and its consumed samples: for every
// combination of sample order, sampler, blend, batch sizes and lengths, a run that is killed after any
// step and goes on with other ranks, micro-batches and threads sees what the undisturbed one sees.
// WEFT_TEST_SEED tries other sizes and steps; WEFT_TEST_ROUNDS tries more of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "indexed_dataset/blends/build_datasets.h"
#include "indexed_dataset/blends/order_description.h"
#include "indexed_dataset/curriculum/metric_files.h"
#include "tests/trainer/tiny_dataset.h"
#include "trainer/data/batch_schedule.h"
#include "trainer/data/data_loader.h"

namespace weft {
namespace {

constexpr int64_t kUnit = 12;  // batches can be divided by each number of rows that ranks share
enum class Data { kOne, kBlend, kUnweighted, kScheduled, kCyclic, kByDifficulty };
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

struct Step {
  RunPosition after;
  std::vector<Row> rows;  // of all ranks, in the order of samples
  bool operator==(const Step& other) const {
    return after.iteration == other.after.iteration &&
           after.consumed.rows == other.after.consumed.rows &&
           after.consumed.tokens == other.after.consumed.tokens && rows == other.rows;
  }
};

// A run may go on with other values of these.
struct Ranks {
  int64_t micro_batch_size = 1, dp_size = 1, num_threads = 1, read_ahead = 0;
  bool caches = false;
};

class ResumedOrder : public testing::Test {
 protected:
  void choose_run(OrderKind order, Data data, Sizes sizes, Lengths lengths, Chooser& choose) {
    config_ = {};
    config_.seq_length = choose.between(9, 30);
    config_.global_batch_size = 2 * kUnit;
    config_.train_samples = choose.between(150, 260);
    if (sizes == Sizes::kRampUp)
      config_.rampup_batch_size = {kUnit, kUnit, choose.between(13, 150)};
    if (sizes == Sizes::kSteps) {
      config_.step_batch_size_schedule =
          "0:12 " + std::to_string(choose.between(30, 120) * config_.seq_length) + ":36";
    }
    if (lengths != Lengths::kWhole) choose_curriculum(lengths, choose);
    ends_documents_ = choose.of({false, true});
    options_ = {};
    options_.split = "100,0,0";
    options_.order = order;
    options_.sequence_length = config_.seq_length;
    options_.seed = choose.between(0, 10000);
    const auto some = [&] { return static_cast<double>(choose.between(1, 9)); };
    Blend blend;
    blend.prefixes = {a_};
    if (data != Data::kOne && data != Data::kCyclic) blend.prefixes.push_back(b_);
    const bool has_weights =
        data == Data::kBlend || data == Data::kScheduled || data == Data::kByDifficulty;
    if (has_weights) blend.weights = {some(), some()};
    options_.blends.blends[0] = {blend};
    if (data == Data::kScheduled) {
      blend.weights = {some(), some()};
      BlendChange change;
      change.from_samples = choose.between(1, 100);
      change.blend = blend;
      options_.blends.changes = {change};
    }
    if (data == Data::kByDifficulty) choose_difficulties(choose);
    is_cyclic_ = data == Data::kCyclic;
    shards_ = choose.of({false, true});
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
    const TrainingDatasets plain =
        build_training_datasets(options_, {.train_samples = *config_.train_samples});
    std::vector<int64_t> scores(static_cast<size_t>(plain.train->num_samples()));
    for (int64_t& score : scores) score = choose.between(0, 30);
    write_metric_files(folder_ / "metrics", {.name = "score"}, scores,
                       describe_order(*plain.train, order_arguments(options_)));
    config_.curriculum_metrics =
        R"({"score": {"index_to_sample_path": ")" +
        (folder_ / "metrics" / "score" / "score_index_to_sample").string() +
        R"(", "difficulty_type": "percentile", "min_difficulty": 1, "max_difficulty": 20,)"
        R"( "schedule_type": "fixed_root", "schedule_config": {"total_curriculum_step": )" +
        std::to_string(choose.between(2, 15)) + R"(, "difficulty_step": 1, "root_degree": 2}}})";
    config_.curriculum_metrics_seed = choose.between(0, 10000);
    options_.curriculum = config_.metric_curriculum();
  }

  Ranks any_ranks(Chooser& choose) {
    return {.micro_batch_size = choose.of({1, 2, 3}),
            .dp_size = choose.of({1, 2}),
            .num_threads = choose.between(1, 3),
            .read_ahead = choose.of({0, 3}),
            .caches = choose.of({false, true})};
  }

  // Takes the steps from `position` on, up to `max_steps`, as a program does that begins there.
  std::vector<Step> run(RunPosition position, int64_t max_steps, const Ranks& ranks) {
    Config config = config_;
    config.micro_batch_size = ranks.micro_batch_size;
    config.world_size = ranks.dp_size;
    BatchSchedule schedule(config);
    schedule.resume_at(position);
    DatasetOptions options = options_;
    if (ranks.caches) options.cache_path = (folder_ / "cache").string();
    if (is_cyclic_) {
      options.cyclic = {.micro_batch_size = ranks.micro_batch_size,
                        .data_parallel_size = ranks.dp_size,
                        .shards = shards_};
    }
    const TrainingDatasets datasets =
        build_training_datasets(options, {.train_samples = schedule.num_train_samples()});
    const int64_t num_steps = std::min(max_steps, schedule.num_iterations() - position.iteration);
    std::vector<Step> steps(static_cast<size_t>(num_steps));
    for (int64_t rank = 0; rank < ranks.dp_size; ++rank)
      run_rank(position, schedule, *datasets.train, ranks, rank, steps);
    return steps;
  }

  void run_rank(RunPosition position, const BatchSchedule& schedule, const BlendedDataset& dataset,
                const Ranks& ranks, int64_t rank, std::vector<Step>& steps) {
    DataLoaderOptions options{.micro_batch_size = ranks.micro_batch_size,
                              .dp_rank = rank,
                              .dp_size = ranks.dp_size,
                              .first_sample = position.consumed.rows,
                              .curriculum = schedule.curriculum(),
                              .finished_iterations = position.iteration,
                              .consumed_tokens = position.consumed.tokens,
                              .vocab_size = kTinyVocabulary,
                              .num_threads = ranks.num_threads,
                              .read_ahead_batches = ranks.read_ahead};
    options.end_of_document_id = 63;
    options.eod_mask_loss = ends_documents_;
    DataLoader loader(*backend_, dataset, options,
                      {[&](int64_t consumed) { return schedule.global_batch_size(consumed); },
                       schedule.largest_global_batch_size()});
    for (Step& step : steps) {
      const GlobalBatch batch = loader.next();
      const int64_t B = ranks.micro_batch_size, T = batch.seq_length;
      const int64_t num_rows = batch.num_micro_batches * B * ranks.dp_size;
      step.rows.resize(static_cast<size_t>(num_rows));
      for (int64_t own = 0; own < batch.num_micro_batches * B; ++own) {
        const int64_t at = (own / B * ranks.dp_size + rank) * B + own % B;
        step.rows[static_cast<size_t>(at)] = row_of(batch, own, T);
      }
      ++position.iteration;
      position.consumed.rows += num_rows;
      position.consumed.tokens += batch.num_new_tokens;
      step.after = position;
      loader.release();
    }
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
    DatasetOptions options = options_;
    if (is_cyclic_) {
      options.cyclic = {.micro_batch_size = ranks.micro_batch_size,
                        .data_parallel_size = ranks.dp_size,
                        .shards = shards_};
    }
    const TrainingDatasets datasets =
        build_training_datasets(options, {.train_samples = *config_.train_samples});
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
  DatasetOptions options_;
  bool is_cyclic_ = false, shards_ = false, ends_documents_ = false;
};

TEST_F(ResumedOrder, IsThatOfTheUndisturbedRunForEveryCombination) {
  const uint64_t seed = from_environment("WEFT_TEST_SEED", 20261123);
  const uint64_t rounds = from_environment("WEFT_TEST_ROUNDS", 1);
  std::cout << "WEFT_TEST_SEED=" << seed << " WEFT_TEST_ROUNDS=" << rounds << "\n";
  Chooser choose(seed);
  for (uint64_t round = 0; round < rounds; ++round) {
    for (const auto& [name, order] : kOrderKinds) {
      for (const Data data : {Data::kOne, Data::kBlend, Data::kUnweighted, Data::kScheduled,
                              Data::kCyclic, Data::kByDifficulty}) {
        for (const Sizes sizes : {Sizes::kConstant, Sizes::kRampUp, Sizes::kSteps}) {
          for (const Lengths lengths : {Lengths::kWhole, Lengths::kTruncate, Lengths::kReshape}) {
            // A curriculum by difficulty draws whole samples.
            if (data == Data::kByDifficulty && lengths == Lengths::kReshape) continue;
            SCOPED_TRACE("WEFT_TEST_SEED=" + std::to_string(seed) + " round " +
                         std::to_string(round) + " --sample-order " + name + ", data " +
                         std::to_string(static_cast<int>(data)) + ", sizes " +
                         std::to_string(static_cast<int>(sizes)) + ", lengths " +
                         std::to_string(static_cast<int>(lengths)));
            choose_run(order, data, sizes, lengths, choose);
            // Reshaped rows are known by their masks.
            if (lengths == Lengths::kReshape) ends_documents_ = false;
            Ranks ranks = any_ranks(choose);
            const std::vector<Step> whole = run({}, INT64_MAX, ranks);
            const int64_t num_steps = std::ssize(whole);
            ASSERT_GT(num_steps, 3);
            expect_samples_in_order(whole, lengths, ranks);
            // The run is killed twice.
            const int64_t first = choose.between(1, num_steps - 1),
                          second = choose.between(first, num_steps);
            std::vector<Step> parts;
            for (const int64_t end : {first, second, num_steps}) {
              // The cyclic order is Megatron's, which depends on the ranks.
              const Ranks before = ranks;
              ranks = any_ranks(choose);
              if (is_cyclic_) {
                ranks.micro_batch_size = before.micro_batch_size;
                ranks.dp_size = before.dp_size;
              }
              const RunPosition from = parts.empty() ? RunPosition{} : parts.back().after;
              for (Step& step : run(from, end - std::ssize(parts), ranks))
                parts.push_back(std::move(step));
            }
            ASSERT_EQ(parts.size(), whole.size());
            for (size_t i = 0; i < whole.size(); ++i) ASSERT_EQ(parts[i], whole[i]) << "step " << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft
