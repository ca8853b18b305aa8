// From documents to the iterations that took them: the inverse of what a run reads, for random
// runs.
#include <gmock/gmock.h>

#include <fstream>
#include <random>
#include <set>
#include <tuple>

#include "indexed_dataset/run_record/sample_query.h"
#include "preprocess/inspect/lookup/number_set.h"
#include "preprocess/inspect/lookup/run_readings.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

// One piece of a sequence in one sample: where it is from, and when it was taken.
struct Taken {
  std::string prefix;
  int64_t sequence_idx = 0, begin_token = 0, num_tokens = 0;
  Split split = Split::kTrain;
  int64_t sample_idx = 0, iteration = 0;
  SamplePlace::Slot slot;
  auto key() const {
    return std::tie(prefix, sequence_idx, split, iteration, sample_idx, begin_token, num_tokens,
                    slot.rank, slot.micro_batch, slot.slot);
  }
  bool operator<(const Taken& other) const { return key() < other.key(); }
  bool operator==(const Taken& other) const { return key() == other.key(); }
};
[[maybe_unused]] void PrintTo(const Taken& taken, std::ostream* out) {
  *out << taken.prefix << " sequence " << taken.sequence_idx << " tokens " << taken.begin_token
       << "+" << taken.num_tokens << " split " << static_cast<int>(taken.split) << " sample "
       << taken.sample_idx << " iteration " << taken.iteration << " rank " << taken.slot.rank
       << " micro-batch " << taken.slot.micro_batch << " slot " << taken.slot.slot;
}

class RandomRun {
 public:
  RandomRun(uint32_t seed, const std::vector<std::string>& prefixes)
      : random_(seed), prefixes_(prefixes) {
    SampleOrder order = first_order();
    int64_t iteration = 0, samples = 0, valid_samples = 0;
    for (int64_t i = 0, num_segments = number(1, 3); i < num_segments; ++i) {
      RunSegment& segment = segments_.emplace_back();
      segment.order = order;
      segment.resumed = {.iteration = iteration, .samples = samples};
      segment.resumed_valid_samples = valid_samples;
      segment.num_iterations = num_iterations_;
      const int64_t end = number(iteration + 1, num_iterations_);
      const int64_t interval = order.eval_interval;
      valid_samples +=
          (end / interval - iteration / interval) * order.eval_iters * *order.global_batch_size;
      samples = RunTimeline({segment}).of_iteration(end).last;
      iteration = end;
      if (iteration == num_iterations_) break;
      change(order);
    }
  }
  const std::vector<RunSegment>& segments() const { return segments_; }
  int64_t num_iterations() const { return num_iterations_; }

 private:
  int64_t number(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  bool chance(int64_t one_in) { return number(1, one_in) == 1; }

  SampleOrder first_order() {
    SampleOrder order;
    SampleOrder& data = order;
    data.split = "80,15,5";
    data.sample_order = kOrderKinds[random_() % std::size(kOrderKinds)].second;
    data.seq_length = number(1, 24);
    data.seed = number(0, 1000);
    data.num_threads = 1;
    order.micro_batch_size = number(1, 3);
    order.data_parallel_size = number(1, 3);
    const int64_t unit = order.micro_batch_size * *order.data_parallel_size;
    order.global_batch_size = unit * number(1, 3);
    num_iterations_ = number(1, 40);
    order.train_iters = num_iterations_;
    order.eval_iters = number(0, 2);
    order.eval_interval = number(1, 12);
    Blend blend;
    const int64_t count = number(1, std::ssize(prefixes_));
    for (int64_t i = 0; i < count; ++i) blend.prefixes.push_back(prefixes_[static_cast<size_t>(i)]);
    if (chance(2)) {
      for (int64_t i = 0; i < count; ++i)
        blend.weights.push_back(static_cast<double>(number(1, 9)));
    }
    for (auto& groups : data.blends.blends) groups = {blend};
    if (!blend.weights.empty() && chance(3)) {
      BlendChange change{.from_samples = number(1, 60), .from_tokens = {}, .blend = {}};
      change.blend.prefixes = {prefixes_.back(), prefixes_.front()};
      change.blend.weights = {0.25, 0.75};
      data.blends.changes = {change};
    } else if (chance(3)) {
      // Blends of older programs are not read so.
      if (rules_of(data.sample_order).precedes_core) data.sample_order = OrderKind::kCore010;
      data.cyclic = {.micro_batch_size = order.micro_batch_size,
                     .data_parallel_size = *order.data_parallel_size,
                     .shards = chance(2)};
    } else if (chance(3)) {
      order.rampup_batch_size = {unit, unit, number(1, 50)};
      order.global_batch_size = 3 * unit;
    }
    return order;
  }

  void change(SampleOrder& order) {
    if (chance(3)) order.seed = number(0, 1000);
    if (chance(4)) order.seq_length = number(1, 24);
    const int64_t unit = order.micro_batch_size * *order.data_parallel_size;
    if (chance(3)) order.global_batch_size = unit * number(1, 3);
    if (chance(3)) order.rampup_batch_size.clear();
  }

  std::mt19937 random_;
  std::vector<std::string> prefixes_;
  std::vector<RunSegment> segments_;
  int64_t num_iterations_ = 0;
};

class DocumentVisits : public testing::Test {
 protected:
  DocumentVisits() {
    std::mt19937 random(11);
    for (const int num_documents : {40, 9, 150}) {
      std::vector<std::vector<uint16_t>> documents;
      for (int i = 0; i < num_documents; ++i)
        documents.emplace_back(random() % 5 == 0 ? 0 : random() % 40);
      prefixes_.push_back((folder_ / ("d" + std::to_string(num_documents))).string());
      write_dataset(prefixes_.back(), TokenType::kUInt16, documents);
    }
  }

  // Returns all that iterations and evaluations take, sample by sample, as a data loader reads
  // them.
  static std::vector<Taken> forward(const RandomRun& run) {
    std::vector<Taken> all;
    const auto add = [&](const Stretch& samples, Split split, int64_t iteration) {
      const SampleOrder& order = samples.segment->order;
      const BlendedDataset dataset = *build_group(order, split, "").samples;
      const int64_t batch = order.micro_batch_size, num_ranks = *order.data_parallel_size;
      int64_t num_seen = 0;
      for (int64_t k = 0; samples.first + k * batch * num_ranks < samples.last; ++k) {
        for (int64_t rank = 0; rank < num_ranks; ++rank) {
          for (int64_t slot = 0; slot < batch; ++slot, ++num_seen) {
            const int64_t sample = samples.first + k * batch * num_ranks + rank * batch + slot;
            const auto place = dataset.locate(sample);
            for (const SamplePart& part : dataset.sample_parts(sample)) {
              all.push_back({dataset.dataset(place.dataset_idx).reader().prefix().string(),
                             part.sequence_idx,
                             part.begin_token,
                             part.num_tokens,
                             split,
                             sample,
                             iteration,
                             {rank, k, slot}});
            }
          }
        }
      }
      EXPECT_EQ(num_seen, samples.last - samples.first);
    };
    // A run builds its validation at the start, also where no iteration is followed by one.
    for (const RunSegment& segment : run.segments()) {
      if (segment.order.eval_iters > 0) build_group(segment.order, Split::kValid, "");
    }
    const RunTimeline timeline(run.segments());
    for (int64_t iteration = 1; iteration <= run.num_iterations(); ++iteration) {
      const Stretch samples = timeline.of_iteration(iteration);
      add(samples, Split::kTrain, iteration);
      const SampleOrder& order = samples.segment->order;
      if (order.eval_iters > 0 && iteration % order.eval_interval == 0)
        add(timeline.of_range(iteration, iteration, Split::kValid).at(0), Split::kValid, iteration);
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  static std::vector<Taken> backward(const RandomRun& run, const std::string& prefix,
                                     const std::vector<int64_t>& sequences, int num_threads) {
    std::vector<Taken> all;
    const RunTimeline timeline(run.segments());
    RunSamples samples(timeline);
    for (const Split split : {Split::kTrain, Split::kValid}) {
      for (const Reading& reading :
           find_readings(samples, {{prefix, sequences}}, split, num_threads)) {
        EXPECT_EQ(reading.prefix, prefix);
        if (reading.place.at_end) continue;
        all.push_back({reading.prefix, reading.part.sequence_idx, reading.part.begin_token,
                       reading.part.num_tokens, reading.split, reading.sample_idx,
                       reading.place.iteration.value(), reading.place.slot.value()});
      }
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  TemporaryFolder folder_;
  std::vector<std::string> prefixes_;
};

TEST_F(DocumentVisits, AreTheInverseOfWhatRandomRunsRead) {
  const uint32_t first_seed = std::random_device()();
  int num_runs = 0;
  for (uint32_t i = 0; i < 150 && num_runs < 60; ++i) {
    SCOPED_TRACE("seed " + std::to_string(first_seed + i));
    std::vector<Taken> expected;
    const RandomRun run(first_seed + i, prefixes_);
    try {
      expected = forward(run);
    } catch (const std::exception&) {
      continue;  // such a run cannot be: a dataset gives too few samples
    }
    ++num_runs;
    // All sequences of each dataset at once, and then some of them alone.
    std::vector<Taken> found;
    for (const std::string& prefix : prefixes_) {
      std::vector<int64_t> all(static_cast<size_t>(DatasetReader(prefix).num_sequences()));
      std::iota(all.begin(), all.end(), 0);
      for (const Taken& taken : backward(run, prefix, all, 2)) found.push_back(taken);
      const int64_t one = all[(first_seed + i) % all.size()];
      std::vector<Taken> of_one;
      for (const Taken& taken : expected) {
        if (taken.prefix == prefix && taken.sequence_idx == one) of_one.push_back(taken);
      }
      ASSERT_EQ(backward(run, prefix, {one}, 1), of_one);
    }
    std::sort(found.begin(), found.end());
    ASSERT_EQ(found, expected);
  }
  EXPECT_GE(num_runs, 20);
}

TEST_F(DocumentVisits, OfSequencesOfAnotherDatasetThereAreNone) {
  RandomRun run(1, {prefixes_[0]});
  EXPECT_TRUE(backward(run, prefixes_[1], {0, 1, 2}, 1).empty());
  EXPECT_TRUE(backward(run, prefixes_[0], {}, 1).empty());
}

TEST(NumberSet, FindsWhatIsInIt) {
  const NumberSet set({7, 1'000'000'007, 7, 0, 4096 + 7});
  for (const int64_t number : {0, 7, 4103, 1'000'000'007}) EXPECT_TRUE(set.contains(number));
  for (const int64_t number : {1, 8, 4102, 8199, 1'000'000'006, 1'000'000'008, -1})
    EXPECT_FALSE(set.contains(number)) << number;
  EXPECT_FALSE(NumberSet({}).contains(0));
  const std::vector<uint32_t> values = {5, 7, 1'000'000'007, 6, 7};
  std::vector<std::pair<int64_t, int64_t>> found;
  set.for_each_in(std::span<const uint32_t>(values), 2,
                  [&](int64_t at, int64_t number) { found.emplace_back(at, number); });
  EXPECT_THAT(found, testing::ElementsAre(std::pair<int64_t, int64_t>(1, 7),
                                          std::pair<int64_t, int64_t>(2, 1'000'000'007),
                                          std::pair<int64_t, int64_t>(4, 7)));
}

}  // namespace
}  // namespace weft
