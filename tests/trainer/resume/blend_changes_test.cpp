// Tells what a resumed run changes in the blends of its checkpoint.
#include "trainer/resume/blend_changes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kBegun = 100;  // samples that were begun before the checkpoint

class BlendChanges : public testing::Test {
 protected:
  Config config_with(const std::vector<std::string>& data_path, const std::string& schedule = "") {
    Config config;
    config.seq_length = 10;
    config.paths.data_path = data_path;
    if (schedule.empty()) return config;
    config.paths.blend_schedule = (folder_ / "schedule.json").string();
    write_file_atomically(config.paths.blend_schedule, schedule);
    return config;
  }
  // As a run of these options reads it, and as its checkpoint keeps it. The last letter of a prefix
  // stands for the bytes.
  static DataIdentity data_of(const Config& config) {
    DataIdentity data;
    data.blends = resolve_data_paths(config.paths);
    for (const std::string& prefix : data.blends.prefixes())
      data.datasets.push_back({.prefix = prefix, .bin_xxh3 = static_cast<uint64_t>(prefix.back())});
    return data_identity_from_json(
        nlohmann::ordered_json::parse(to_json(data).dump()));  // through a manifest
  }
  DataDifferences changes(const DataIdentity& saved, const Config& config) {
    return compare_blends(saved, saved_arguments_, data_of(config), kBegun, config);
  }
  // Changes between two runs that only these files tell apart.
  DataDifferences schedule_changes(const std::string& saved, const std::string& ours) {
    const std::vector<std::string> data = {"0.5", "/d/a", "0.5", "/d/b"};
    const DataIdentity before = data_of(config_with(data, saved));
    return changes(before, config_with(data, ours));
  }
  static std::string entry(const std::string& from, const std::string& blend) {
    return fmt::format(R"({{{}, "blend": "{}"}})", from, blend);
  }
  static std::string list(const std::string& entries) { return fmt::format("[{}]", entries); }

  TemporaryFolder folder_;
  std::string saved_arguments_ = "{}";  // of the checkpoint
};

TEST_F(BlendChanges, AListIsReadNotItsName) {
  Config config = config_with({});
  config.paths.data_args_path = (folder_ / "list.txt").string();
  write_file_atomically(config.paths.data_args_path, "0.3 /d/a 0.5 /d/b 0.2 /d/c");
  const DataIdentity saved = data_of(config);
  EXPECT_THAT(changes(saved, config).allowed, IsEmpty());
  // The same blend, named in another way; and spelled otherwise, from another folder.
  EXPECT_THAT(changes(saved, config_with({"0.3", "/d/a", "0.5", "/d/b", "0.2", "/d/c"})).allowed,
              IsEmpty());
  EXPECT_THAT(
      changes(saved, config_with({"0.30", "/moved/a", "0.5", "/moved/b", "0.2", "/d/c"})).allowed,
      IsEmpty());
  write_file_atomically(config.paths.data_args_path, "0.3 /d/a 0.4 /d/b 0.2 /d/c");
  EXPECT_THAT(
      changes(saved, config).allowed,
      ElementsAre(
          "--data-args-path " + config.paths.data_args_path +
          ": training dataset 2 was 0.5 /d/b when the checkpoint was saved and is 0.4 /d/b "
          "now: samples from here on may be others than without the change; to change it from a "
          "sample on, without losing or repeating any, keep the old blend and name the new one in "
          "--blend-schedule"));
  write_file_atomically(config.paths.data_args_path, "0.3 /d/a 0.2 /d/c");
  EXPECT_THAT(changes(saved, config).allowed,
              ElementsAre(HasSubstr("training dataset 2 was 0.5 /d/b when the checkpoint was saved "
                                    "and is 0.2 /d/c now (2 datasets differ)")));
  EXPECT_THAT(changes(saved, config).refused, IsEmpty());
  // Bytes tell swapped datasets apart.
  EXPECT_THAT(changes(saved, config_with({"0.3", "/d/b", "0.5", "/d/a", "0.2", "/d/c"})).allowed,
              SizeIs(1));
}

TEST_F(BlendChanges, EachSplitOfAFileIsCompared) {
  Config config = config_with({});
  config.paths.per_split_data_args_path = (folder_ / "splits.json").string();
  const auto write = [&](const std::string& train, const std::string& valid,
                         const std::string& test) {
    write_file_atomically(
        config.paths.per_split_data_args_path,
        nlohmann::json{{"train", train}, {"valid", valid}, {"test", test}}.dump());
  };
  write("0.3 /d/a 0.7 /d/b", "/d/c", "/d/e");
  const DataIdentity saved = data_of(config);
  EXPECT_THAT(changes(saved, config).allowed, IsEmpty());
  write("0.3 /d/a 0.7 /d/b", "1 /d/c 2 /d/b", "/d/f");
  const std::string option = "--per-split-data-args-path " + config.paths.per_split_data_args_path;
  EXPECT_THAT(
      changes(saved, config).allowed,
      ElementsAre(AllOf(HasSubstr(option + ": validation dataset 1 was 0:1 /d/c when"),
                        HasSubstr("is 1 0:1 /d/c now (2 datasets differ): evaluations from here")),
                  AllOf(HasSubstr(option + ": test dataset 1 was 0:1 /d/e when"),
                        HasSubstr("evaluations from here on may take other samples"))));
  write("0.3 /d/a 0.6 /d/b", "/d/c", "/d/e");
  EXPECT_THAT(changes(saved, config).allowed,
              ElementsAre(AllOf(HasSubstr(option + ": training dataset 2 was 0.7 0:1 /d/b"),
                                HasSubstr("samples from here on may be others"))));
}

TEST_F(BlendChanges, SharesAndNamesOfGroupsAreCompared) {
  Config config = config_with({});
  config.paths.train_weighted_split_paths = {"t: 1 0:0.9 /d/a"};
  config.paths.valid_weighted_split_paths = {"v: 1 0.9:1 /d/a", "w: 1 0.9:1 /d/b"};
  const DataIdentity saved = data_of(config);
  EXPECT_THAT(changes(saved, config).allowed, IsEmpty());
  config.paths.train_weighted_split_paths = {"t: 1 0:0.8 /d/a"};
  config.paths.valid_weighted_split_paths = {"v: 1 0.9:1 /d/a", "x: 1 0.9:1 /d/b"};
  EXPECT_THAT(
      changes(saved, config).allowed,
      ElementsAre(HasSubstr("--train-weighted-split-paths: training dataset 1 was t: 0:0.9 /d/a"),
                  HasSubstr("--valid-weighted-split-paths: validation dataset 2 was w: 0.9:1")));
}

TEST_F(BlendChanges, AScheduleIsRefusedBeforeTheEndOfTheSamplesAndToldAfterIt) {
  const std::string first = entry(R"("from_samples": 60)", "1 /d/a 2 /d/b"),
                    second = entry(R"("from_samples": 100)", "1 /d/a 3 /d/c");
  EXPECT_THAT(schedule_changes(list(first), list(first)).allowed, IsEmpty());
  EXPECT_THAT(schedule_changes(list(first), list(first)).refused, IsEmpty());
  // Sample 100 is the first one that was not begun.
  const DataDifferences added = schedule_changes(list(first), list(first + "," + second));
  EXPECT_THAT(added.refused, IsEmpty());
  EXPECT_THAT(added.allowed,
              ElementsAre(AllOf(HasSubstr("schedule.json: entry 2 was none when the checkpoint was "
                                          "saved and is from sample 100 on 1 /d/a 3 /d/c now"),
                                HasSubstr("samples from 100 on follow the new schedule"))));
  EXPECT_THAT(schedule_changes("[]", list(second)).allowed, SizeIs(1));
  EXPECT_THAT(schedule_changes(list(second), "").allowed, SizeIs(1)) << "the option was left out";
  const auto refused = [&](const std::string& saved, const std::string& ours) {
    const DataDifferences changes = schedule_changes(saved, ours);
    EXPECT_THAT(changes.allowed, IsEmpty());
    return changes.refused.empty() ? "" : changes.refused.front();
  };
  EXPECT_THAT(refused(list(first), ""),
              AllOf(HasSubstr("--blend-schedule: entry 1 was from sample 60 on 1 /d/a 2 /d/b when "
                              "the checkpoint was saved and is none now, and the run has begun 100 "
                              "samples: some would come twice and others not at all"),
                    HasSubstr("in which entries from sample 100 on may differ"),
                    HasSubstr("or start another run with --finetune")));
  EXPECT_THAT(refused("", list(first)), HasSubstr("entry 1 was none when"));
  EXPECT_THAT(refused(list(first), list(entry(R"("from_samples": 61)", "1 /d/a 2 /d/b"))),
              HasSubstr("entry 1 was from sample 60 on 1 /d/a 2 /d/b when"));
  EXPECT_THAT(refused(list(first), list(entry(R"("from_samples": 60)", "1 /d/a 2.5 /d/b"))),
              HasSubstr("of entry 1, from sample 60 on, dataset 2 was 2 /d/b when the checkpoint "
                        "was saved and is 2.5 /d/b now"));
  // An entry that begins before the last of the samples now did not then.
  EXPECT_THAT(refused(list(second), list(entry(R"("from_samples": 99)", "1 /d/a 3 /d/c"))),
              HasSubstr("entry 1 was from sample 100 on"));
}

TEST_F(BlendChanges, TokensOfAScheduleMeanSamples) {
  const auto from = [](const std::string& start) { return list(entry(start, "1 /d/a 2 /d/b")); };
  // 10 tokens a sample: token 591 is in sample 60, as is 600.
  EXPECT_THAT(
      schedule_changes(from(R"("from_tokens": 591)"), from(R"("from_samples": 60)")).refused,
      IsEmpty());
  EXPECT_THAT(
      schedule_changes(from(R"("from_tokens": 591)"), from(R"("from_tokens": 601)")).refused,
      SizeIs(1));
  EXPECT_THAT(
      schedule_changes(from(R"("from_tokens": 991)"), from(R"("from_tokens": 2000)")).allowed,
      ElementsAre(HasSubstr("from token 2000 on")));
}

TEST_F(BlendChanges, TokensMeanOtherSamplesOfAnotherLength) {
  const std::vector<std::string> data = {"0.5", "/d/a", "0.5", "/d/b"};
  const auto with = [&](const std::string& start, int64_t length) {
    Config config = config_with(data, list(entry(start, "1 /d/a 2 /d/b")));
    config.seq_length = length;
    return config;
  };
  saved_arguments_ = R"({"seq_length": 10})";
  const auto between = [&](const std::string& saved, const std::string& ours, int64_t length) {
    const DataIdentity before = data_of(with(saved, 10));
    return changes(before, with(ours, length));
  };
  const std::string early = R"("from_tokens": 591)", late = R"("from_tokens": 4001)";
  EXPECT_THAT(
      between(early, early, 20).refused,
      ElementsAre(AllOf(HasSubstr("entry 1 was from token 591 (sample 60 with --seq-length 10) on"),
                        HasSubstr("is from token 591 (sample 30 with --seq-length 20) on"),
                        HasSubstr(R"(give "from_samples": 60 in place of its token)"))));
  EXPECT_THAT(between(early, R"("from_samples": 60)", 20).refused, IsEmpty());
  EXPECT_THAT(between(early, R"("from_samples": 60)", 20).allowed, IsEmpty());
  EXPECT_THAT(between(early, R"("from_tokens": 1191)", 20).refused, IsEmpty()) << "sample 60 again";
  const DataDifferences later = between(late, late, 20);
  EXPECT_THAT(later.refused, IsEmpty());
  EXPECT_THAT(later.allowed, ElementsAre(HasSubstr("samples from 201 on follow the new schedule")));
  EXPECT_THAT(between(early, early, 10).refused, IsEmpty());
}

TEST_F(BlendChanges, WeightsThatAreTheSameSharesAreEqual) {
  const auto from = [](const std::string& blend) {
    return list(entry(R"("from_samples": 60)", blend));
  };
  const auto refused = [&](const std::string& saved, const std::string& ours) {
    return schedule_changes(from(saved), from(ours)).refused;
  };
  EXPECT_THAT(refused("1 /d/a 2 /d/b", "0.5 /d/a 1 /d/b"), IsEmpty());
  EXPECT_THAT(schedule_changes(from("1 /d/a 2 /d/b"), from("0.5 /d/a 1 /d/b")).allowed, IsEmpty());
  EXPECT_THAT(refused("1 /d/a 2 /d/b", "0.5 /d/a 1.1 /d/b"), SizeIs(1));
  // 0.1 / (0.1 + 0.3) is not 1 / 4 to the last bit, which decides samples.
  EXPECT_THAT(refused("1 /d/a 3 /d/b", "0.1 /d/a 0.3 /d/b"), SizeIs(1));
  const DataIdentity saved = data_of(config_with({"3", "/d/a", "5", "/d/b"}));
  EXPECT_THAT(changes(saved, config_with({"6", "/d/a", "10", "/d/b"})).allowed, IsEmpty());
  EXPECT_THAT(changes(saved, config_with({"6", "/d/a", "11", "/d/b"})).allowed, SizeIs(1));
}

TEST_F(BlendChanges, AnotherOrderOfTheDatasetsIsToldAsSuch) {
  const DataIdentity saved = data_of(config_with({"0.3", "/d/a", "0.5", "/d/b", "0.2", "/d/c"}));
  EXPECT_THAT(
      changes(saved, config_with({"0.3", "/d/a", "0.2", "/d/c", "0.5", "/d/b"})).allowed,
      ElementsAre(HasSubstr("dataset 2 was 0.5 /d/b when the checkpoint was saved and is 0.2 "
                            "/d/c now (2 datasets differ, in their order alone, which "
                            "decides samples, too)")));
  EXPECT_THAT(changes(saved, config_with({"0.3", "/d/a", "0.5", "/d/c", "0.2", "/d/b"})).allowed,
              ElementsAre(HasSubstr("(2 datasets differ): samples")));
}

// An entry goes on with a dataset only under the name that it had before.
TEST_F(BlendChanges, ACopyUnderASecondNameIsNoLongerTheDatasetOfTheSchedule) {
  const std::vector<std::string> data = {"0.5", "/d/a", "0.5", "/d/b"},
                                 moved = {"0.5", "/m/a", "0.5", "/m/b"};
  const auto from = [](int64_t sample, const std::string& blend) {
    return list(entry(fmt::format(R"("from_samples": {})", sample), blend));
  };
  const DataIdentity early = data_of(config_with(data, from(60, "1 /d/a 2 /d/b")));
  const DataIdentity late = data_of(config_with(data, from(100, "1 /d/a 2 /d/b")));
  const DataIdentity two = data_of(config_with(moved, from(60, "1 /d/a 2 /d/b")));
  const DataDifferences half = changes(early, config_with(moved, from(60, "1 /d/a 2 /d/b")));
  EXPECT_THAT(half.refused,
              ElementsAre(AllOf(HasSubstr("the schedule names /d/a, and --data-path or an earlier "
                                          "entry names /m/a with the same bytes"),
                                HasSubstr("name one of them in both"))));
  EXPECT_THAT(changes(late, config_with(moved, from(100, "1 /d/a 2 /d/b"))).refused, IsEmpty());
  EXPECT_THAT(changes(late, config_with(moved, from(100, "1 /d/a 2 /d/b"))).allowed, SizeIs(1));
  EXPECT_THAT(changes(two, config_with(data, from(60, "1 /d/a 2 /d/b"))).refused,
              ElementsAre(HasSubstr("/d/a stands for /m/a and /d/a, which were two datasets")));
  // Moved as a whole.
  const DataDifferences whole = changes(early, config_with(moved, from(60, "1 /m/a 2 /m/b")));
  EXPECT_THAT(whole.refused, IsEmpty());
  EXPECT_THAT(whole.allowed, IsEmpty());
}

}  // namespace
}  // namespace weft
