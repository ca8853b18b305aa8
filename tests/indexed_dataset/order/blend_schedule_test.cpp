#include "indexed_dataset/order/blends/blend_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "indexed_dataset/order/blends/build_datasets.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kLength = 4;

class BlendSchedule : public testing::Test {
 protected:
  using Arguments = std::vector<std::string>;

  // A dataset whose tokens are numbered through.
  std::string write(const std::string& name, int num_documents) {
    std::vector<std::vector<uint16_t>> documents;
    uint16_t next = 0;
    for (int d = 0; d < num_documents; ++d) {
      documents.emplace_back(3 + static_cast<size_t>(d) % 7);
      for (uint16_t& token : documents.back()) token = next++;
    }
    const std::filesystem::path prefix = folder_ / name;
    write_dataset(prefix, TokenType::kUInt16, documents);
    return prefix.string();
  }
  std::string schedule(const std::string& text) {
    const std::string path = folder_ / "schedule.json";
    write_file_atomically(path, text);
    return path;
  }
  static BlendedDataset build(const DataPaths& paths, int64_t num_samples,
                              OrderKind order = OrderKind::kCore) {
    SampleOrder run;
    run.split = "100,0,0";
    run.sample_order = order;
    run.seq_length = kLength;
    run.blends = resolve_data_paths(paths);
    return *build_training_datasets(run, {.train_samples = num_samples}).train;
  }
  BlendedDataset build(const Arguments& data, const std::string& text, int64_t num_samples,
                       OrderKind order = OrderKind::kCore) {
    return build({.data_path = data, .blend_schedule = schedule(text)}, num_samples, order);
  }
  // The dataset and the tokens of samples [first, last).
  using Sample = std::pair<std::string, std::vector<int32_t>>;
  static std::vector<Sample> samples(const BlendedDataset& blend, int64_t first, int64_t last) {
    std::vector<Sample> all;
    for (int64_t i = first; i < last; ++i) {
      std::vector<int32_t> tokens(kLength + 1);
      blend.sample(i, tokens.data());
      const auto place = blend.locate(i);
      all.emplace_back(blend.dataset(place.dataset_idx).reader().prefix().string(), tokens);
    }
    return all;
  }
  // Expects that each dataset gives all samples of a lap, in order, before it begins the next one.
  static void expect_nothing_lost_or_repeated(const BlendedDataset& blend) {
    std::map<std::string, std::pair<int64_t, int64_t>> next;  // entry of the blend, sample in it
    for (int64_t i = 0; i < blend.num_samples(); ++i) {
      const auto place = blend.locate(i);
      const GptDataset& dataset = blend.dataset(place.dataset_idx);
      const std::string prefix = dataset.reader().prefix().string();
      const auto [at, is_new] = next.try_emplace(prefix, place.dataset_idx, 0);
      if (at->second.second == blend.dataset(at->second.first).num_samples()) {
        EXPECT_GT(place.dataset_idx, at->second.first);
        at->second = {place.dataset_idx, 0};
      }
      ASSERT_EQ(std::pair(place.dataset_idx, place.sample_idx), at->second) << "sample " << i;
      ++at->second.second;
    }
  }

  TemporaryFolder folder_;
  std::string a_ = write("a", 30), b_ = write("b", 50), c_ = write("c", 20);
};

TEST_F(BlendSchedule, SamplesBeforeAChangeAreThoseOfTheRunWithoutIt) {
  const Arguments data = {"0.7", a_, "0.3", b_};
  for (const auto& [name, order] : kOrderKinds) {
    SCOPED_TRACE(name);
    const BlendedDataset plain = build(DataPaths{.data_path = data}, 200, order);
    const std::string first = R"({"from_samples": 70, "blend": "0.2 )" + a_ + " 0.8 " + b_ + "\"}";
    const BlendedDataset changed = build(data, "[" + first + "]", 200, order);
    EXPECT_EQ(samples(changed, 0, 70), samples(plain, 0, 70));
    EXPECT_NE(samples(changed, 70, 200), samples(plain, 70, 200));
    expect_nothing_lost_or_repeated(changed);
    // A second change, and a dataset that is new.
    const std::string second =
        R"({"from_samples": 120, "blend": ["0.5", ")" + c_ + R"(", 0.5, ")" + a_ + "\"]}";
    const BlendedDataset again = build(data, "[" + first + "," + second + "]", 200, order);
    EXPECT_EQ(samples(again, 0, 120), samples(changed, 0, 120));
    expect_nothing_lost_or_repeated(again);
    for (const auto& [prefix, tokens] : samples(again, 120, 200)) EXPECT_NE(prefix, b_);
  }
}

TEST_F(BlendSchedule, OneDatasetIsTheOneThatItWasWithoutABlend) {
  const BlendedDataset plain = build(DataPaths{.data_path = {a_}}, 100);
  const BlendedDataset changed =
      build({a_}, R"([{"from_samples": 40, "blend": "1 )" + a_ + " 3 " + b_ + "\"}]", 100);
  EXPECT_EQ(samples(changed, 0, 40), samples(plain, 0, 40));
  expect_nothing_lost_or_repeated(changed);
}

TEST_F(BlendSchedule, EachPhaseHasItsWeightsFromItsBeginning) {
  const BlendedDataset blend =
      build({"0.5", a_, "0.5", b_},
            R"([{"from_samples": 100, "blend": "0.9 )" + a_ + " 0.1 " + b_ + "\"}]", 200);
  for (const auto& [first, share] : {std::pair{0, 0.5}, {100, 0.9}, {150, 0.9}}) {
    int64_t count = 0;
    for (const auto& [prefix, tokens] : samples(blend, first, first + 50))
      count += prefix == a_ ? 1 : 0;
    EXPECT_NEAR(static_cast<double>(count), 50 * share, 1.0) << first;
  }
}

TEST_F(BlendSchedule, ATokenMeansTheFirstSampleThatBeginsThereOrLater) {
  const auto first = [](int64_t token) {
    return first_sample_of({.from_samples = {}, .from_tokens = token, .blend = {}}, kLength);
  };
  EXPECT_EQ(first(1), 1);
  EXPECT_EQ(first(4), 1);
  EXPECT_EQ(first(5), 2);
  const std::string blend = "\"0.2 " + a_ + " 0.8 " + b_ + "\"}]";
  const BlendedDataset by_tokens =
      build({"0.7", a_, "0.3", b_}, R"([{"from_tokens": 199, "blend": )" + blend, 100);
  const BlendedDataset by_samples =
      build({"0.7", a_, "0.3", b_}, R"([{"from_samples": 50, "blend": )" + blend, 100);
  EXPECT_EQ(samples(by_tokens, 0, 100), samples(by_samples, 0, 100));
}

TEST_F(BlendSchedule, ADatasetThatIsUsedUpBeginsAnewInAnotherOrder) {
  // c has few samples, and the first blend asks for hardly any of them.
  const BlendedDataset blend =
      build({"0.95", a_, "0.05", c_}, R"([{"from_samples": 20, "blend": "1 )" + c_ + "\"}]", 300);
  expect_nothing_lost_or_repeated(blend);
  std::map<int64_t, std::vector<std::vector<int32_t>>> laps;
  for (int64_t i = 0; i < blend.num_samples(); ++i) {
    const auto place = blend.locate(i);
    if (blend.dataset(place.dataset_idx).reader().prefix() != c_) continue;
    laps[place.dataset_idx].emplace_back(kLength + 1);
    blend.sample(i, laps[place.dataset_idx].back().data());
  }
  ASSERT_GE(laps.size(), 3U);
  const auto first = laps.begin()->second, second = std::next(laps.begin())->second;
  EXPECT_NE(first, second);
  // A lap is whole epochs: every sample is another one.
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), first.size());
}

TEST_F(BlendSchedule, ADatasetGoesOnUnderAnySpellingOfItsName) {
  namespace fs = std::filesystem;
  const std::string change = R"([{"from_samples": 70, "blend": "0.2 )";
  const auto plain =
      samples(build({"0.7", a_, "0.3", b_}, change + a_ + " 0.8 " + b_ + "\"}]", 200), 0, 200);
  fs::create_directory(folder_ / "sub");
  fs::create_directory_symlink(folder_.path(), folder_ / "link");
  for (const char* suffix : {".bin", ".idx"})
    fs::create_symlink(a_ + suffix, folder_ / ("other" + std::string(suffix)));
  for (const char* spelling : {"./a", "sub/../a", "link/a", "other"}) {
    const std::string again = folder_ / spelling;
    const BlendedDataset blend =
        build({"0.7", a_, "0.3", b_}, change + again + " 0.8 " + b_ + "\"}]", 200);
    EXPECT_EQ(samples(blend, 0, 200), plain) << spelling;
    EXPECT_THROW(build({"0.7", a_, "0.3", again}, change + b_ + "\"}]", 200), std::invalid_argument)
        << spelling;
    EXPECT_THROW(build({"1", b_}, change + a_ + " 0.8 " + again + "\"}]", 200),
                 std::invalid_argument)
        << spelling;
  }
}

// A later blend names datasets of which validation and test have a part, or all.
TEST_F(BlendSchedule, ANewDatasetGivesNoDocumentThatIsHeldOut) {
  const std::string change = R"([{"from_samples": 10, "blend": "1 )" + c_ + "\"}]";
  const auto held_out = [&](const Arguments& valid, const Arguments& test) {
    DataPaths paths{.train_weighted_split_paths = {"T: 1 0:1 " + a_},
                    .blend_schedule = schedule(change)};
    for (const std::string& share : valid)
      paths.valid_weighted_split_paths.push_back("V: 1 " + share + " " + folder_.path().string() +
                                                 "/./c");
    for (const std::string& share : test)
      paths.test_weighted_split_paths.push_back("E: 1 " + share + " " + c_);
    return paths;
  };
  // c has 20 documents, whose tokens are numbered through: where each begins.
  std::vector<int32_t> begins = {0};
  for (int d = 0; d < 20; ++d) begins.push_back(begins.back() + 3 + d % 7);
  struct Case {
    Arguments valid, test;
    int first, last;  // documents of c that are left for training
  };
  for (const auto& [valid, test, first, last] :
       {Case{{"0.9:1"}, {}, 0, 18}, Case{{"0.8:0.9"}, {"0.9:1"}, 0, 16},
        Case{{"0:0.25"}, {}, 5, 20}, Case{{"0:0.25"}, {"0.5:1"}, 5, 10},
        Case{{"0.5:0.75", "0.5:1"}, {}, 0, 10}, Case{{}, {}, 0, 20}}) {
    std::set<int32_t> tokens;
    const BlendedDataset blend = build(held_out(valid, test), 300);
    for (const auto& [prefix, values] : samples(blend, 10, 300))
      tokens.insert(values.begin(), values.end());
    EXPECT_EQ(*tokens.begin(), begins[static_cast<size_t>(first)]);
    EXPECT_EQ(*tokens.rbegin(), begins[static_cast<size_t>(last)] - 1);
  }
  for (const auto& [valid, test] :
       {std::pair<Arguments, Arguments>{{"0:1"}, {}}, {{"0:0.5"}, {"0.5:1"}}, {{"0.25:0.5"}, {}}}) {
    try {
      build(held_out(valid, test), 300);
      ADD_FAILURE() << "nothing was refused";
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), HasSubstr("validation and test"));
    }
  }
  // A dataset that the run trains on from the beginning keeps its share.
  const BlendedDataset known =
      build({.train_weighted_split_paths = {"T: 1 0:1 " + a_ + ", 1 0:0.5 " + c_},
             .valid_weighted_split_paths = {"V: 1 0.9:1 " + c_},
             .blend_schedule = schedule(change)},
            300);
  for (const auto& [prefix, values] : samples(known, 10, 300)) {
    for (const int32_t token : values) EXPECT_LT(token, begins[10]);
  }
}

// The plan against a plain loop over all phases and datasets.
TEST_F(BlendSchedule, AgreesWithAPlainLoopForRandomSchedules) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    const auto num_samples = static_cast<int64_t>(1 + random() % 500);
    std::vector<Blend> blends(1 + random() % 4);
    std::vector<int64_t> starts = {0};
    for (Blend& blend : blends) {
      blend.prefixes = {"p", "q", "r", "s", "t"};
      std::shuffle(blend.prefixes.begin(), blend.prefixes.end(), random);
      blend.prefixes.resize(1 + random() % 5);
      for (size_t i = 0; i < blend.prefixes.size(); ++i)
        blend.weights.push_back(static_cast<double>(1 + random() % 1000));
      starts.push_back(starts.back() + 1 + static_cast<int64_t>(random() % 200));
    }
    std::vector<BlendChange> changes;
    for (size_t i = 1; i < blends.size(); ++i)
      changes.push_back({.from_samples = starts[i], .from_tokens = {}, .blend = blends[i]});
    const BlendPlan plan =
        plan_blends(blends[0], changes, num_samples, kLength, OrderKind::kCore, 0.005);
    std::map<std::string, int64_t> given;
    const BlendingIndexView view = plan.index.view();
    ASSERT_EQ(view.size(), num_samples);
    for (size_t phase = 0; phase < blends.size(); ++phase) {
      const int64_t end =
          phase + 1 < blends.size() ? std::min(starts[phase + 1], num_samples) : num_samples;
      const Blend& blend = blends[phase];
      const BlendSizes sizes = blend_sizes(blend.weights, num_samples, OrderKind::kCore);
      std::vector<int64_t> taken(blend.prefixes.size());
      for (int64_t k = starts[phase]; k < end; ++k) {
        const auto position = static_cast<double>(std::max<int64_t>(k - starts[phase], 1));
        size_t best = 0;
        for (size_t d = 1; d < taken.size(); ++d) {
          const auto behind = [&](size_t i) {
            return sizes.weights[i] * position - static_cast<double>(taken[i]);
          };
          if (behind(d) > behind(best)) best = d;
        }
        ++taken[best];
        const auto dataset = static_cast<size_t>(view.dataset_of(k));
        ASSERT_EQ(plan.datasets.prefixes[dataset], blend.prefixes[best]) << k;
        ASSERT_EQ(view.sample_index[static_cast<size_t>(k)], given[blend.prefixes[best]]++) << k;
      }
    }
  }
}

TEST_F(BlendSchedule, LapsFollowEachOther) {
  BlendingIndex index{.dataset_index = std::vector<int32_t>{0, 1, 0, 0, 0, 1, 0},
                      .sample_index = {0, 0, 1, 2, 3, 1, 4},
                      .counts = {5, 2}};
  const auto laps = split_into_laps(index, {2, 2});
  ASSERT_EQ(laps.size(), 4U);
  EXPECT_EQ(laps[2].dataset_idx, 0);
  EXPECT_EQ(laps[2].lap, 1);
  EXPECT_EQ(laps[3].lap, 2);
  EXPECT_THAT(std::get<std::vector<int32_t>>(index.dataset_index),
              ElementsAre(0, 1, 0, 2, 2, 1, 3));
  EXPECT_THAT(index.sample_index, ElementsAre(0, 0, 1, 0, 1, 1, 0));
}

TEST_F(BlendSchedule, RefusesWhatIsNoSchedule) {
  const Arguments data = {"0.5", a_, "0.5", b_};
  const auto error = [&](const Arguments& paths, const std::string& text) -> std::string {
    try {
      build(paths, text, 100);
    } catch (const std::invalid_argument& failure) {
      return failure.what();
    }
    return "(nothing was thrown)";
  };
  const std::string blend = R"("blend": "1 )" + a_ + "\"}]";
  EXPECT_THAT(error(data, "{"), HasSubstr("schedule.json: "));
  EXPECT_THAT(error(data, "{}"), HasSubstr("not a JSON list"));
  EXPECT_THAT(error(data, "[3]"), HasSubstr("an entry without \"blend\""));
  EXPECT_THAT(error(data, "[{" + blend), HasSubstr("either \"from_samples\" or \"from_tokens\""));
  EXPECT_THAT(error(data, "[{\"from_samples\": 0, " + blend), HasSubstr("an integer above 0"));
  EXPECT_THAT(error(data, "[{\"from_sample\": 9, " + blend),
              HasSubstr("\"from_sample\", which means nothing"));
  EXPECT_THAT(error(data, R"([{"from_samples": 9, "blend": ")" + a_ + " " + b_ + "\"}]"),
              HasSubstr("a blend without weights"));
  EXPECT_THAT(error(data, R"([{"from_samples": 9, "blend": "1 )" + a_ + " 2 " + a_ + "\"}]"),
              HasSubstr("stands twice in one blend"));
  EXPECT_THAT(error({a_, b_}, "[{\"from_samples\": 9, " + blend),
              HasSubstr("the run's own blend has no weights"));
  const std::string entry = "{\"from_samples\": 9, \"blend\": \"1 " + a_ + "\"}";
  EXPECT_THAT(error(data, "[" + entry + "," + entry + "]"),
              HasSubstr("a blend begins with sample 9, not after the one before it"));
}

}  // namespace
}  // namespace weft
