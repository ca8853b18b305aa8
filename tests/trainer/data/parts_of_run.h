// A run that takes its batches in parts, each as a program of its own ranks does, with a
// checkpoint's manifest between two of them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/trainer/tiny_dataset.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/data/batch_schedule.h"
#include "trainer/data/data_loader.h"
#include "trainer/plan/train_setup.h"
#include "trainer/resume/resume.h"

namespace weft {

struct Row {
  std::vector<int32_t> tokens, targets;
  std::vector<float> mask;
  bool operator==(const Row&) const = default;
};

// A run's place in its samples.
struct Place {
  RunPosition train;
  int64_t valid_samples = 0;
  std::optional<CyclicOptions> cyclic = {};
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

class PartsOfRun : public testing::Test {
 protected:
  Config config_of(const Ranks& ranks) const {
    Config config = config_;
    config.micro_batch_size = ranks.micro_batch_size;
    config.world_size = ranks.dp_size;
    if (ranks.caches) config.data_cache_path = (folder_ / "cache").string();
    return config;
  }
  static SampleOrder order_of(const Config& config) {
    return sample_order(config, resolve_data_paths(config.paths));
  }

  // As a program of these ranks does that begins there (train_data.cpp). `place` is told the order
  // that a cyclic run keeps.
  TrainingDatasets build(Place& place, const Ranks& ranks) const {
    const Config config = config_of(ranks);
    SampleOrder order = order_of(config);
    if (place.cyclic) order.cyclic = place.cyclic;
    place.cyclic = order.cyclic;
    return build_training_datasets(order, target_sizes(config, BatchSchedule(config)));
  }

  // Writes what a program of these ranks saves at `place`.
  void save(const Place& place, const Ranks& ranks) const {
    const Config config = config_of(ranks);
    const RunState state{.scalars = {.iteration = place.train.iteration,
                                     .consumed_samples = place.train.consumed.rows,
                                     .adam_step = place.train.iteration,
                                     .consumed_tokens = place.train.consumed.tokens},
                         .consumed_valid_samples = place.valid_samples,
                         .lr = LrSchedule(lr_settings(config)),
                         .cyclic = place.cyclic};
    write_file_atomically(manifest_,
                          to_json(Manifest{.info = checkpoint_info(state, shape_of(config), config,
                                                                   identity_of(config)),
                                           .pieces = {}}));
  }
  // Returns the place where a program of these ranks goes on from there.
  Place load(const Ranks& ranks, size_t num_warnings = 0) const {
    Config config = config_of(ranks);
    config.no_load_optim = true;  // what save() writes holds counters alone
    const Resume resume =
        plan_resume(read_manifest(manifest_).info, shape_of(config), config, identity_of(config));
    EXPECT_THAT(resume.warnings, testing::SizeIs(num_warnings));
    return {position_of(resume.state.scalars), resume.state.consumed_valid_samples,
            resume.state.cyclic};
  }

  // Takes the steps from `place` on, up to `max_steps`.
  std::vector<Step> run(Place place, int64_t max_steps, const Ranks& ranks) {
    BatchSchedule schedule(config_of(ranks));
    schedule.resume_at(place.train);
    const TrainingDatasets datasets = build(place, ranks);
    const int64_t num_steps =
        std::min(max_steps, schedule.num_iterations() - place.train.iteration);
    std::vector<Step> steps(static_cast<size_t>(num_steps));
    for (int64_t rank = 0; rank < ranks.dp_size; ++rank)
      run_rank(place, schedule, datasets, ranks, rank, steps);
    return steps;
  }

  TemporaryFolder folder_;
  std::string a_ = write_tiny_dataset(folder_ / "a", 70),
              b_ = write_tiny_dataset(folder_ / "b", 45);
  std::unique_ptr<Backend> backend_ = create_cpu_backend(1);
  Config config_;

 private:
  static ModelShape shape_of(const Config& config) { return model_shape(config, kTinyVocabulary); }
  static DataIdentity identity_of(const Config& config) {
    DataIdentity data;
    data.blends = resolve_data_paths(config.paths);
    for (const std::string& prefix : data.blends.prefixes())
      data.datasets.push_back(identify_dataset(prefix));
    data.vocabulary = {.num_tokens = kTinyVocabulary, .source = "tiny", .end_of_document = 63};
    return data;
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

  const std::filesystem::path manifest_ = folder_ / "manifest.json";
};

}  // namespace weft
