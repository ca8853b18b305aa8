// Shards of two versions of a corpus are not one dataset: merge tells them apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/merge/merge.h"
#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "preprocess/run/run_manifest.h"
#include "tests/preprocess/small_run.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ShardVersions : public ::testing::Test, protected SmallRun {
 protected:
  ShardVersions() {
    config.task_bytes = 10'000;
    config.num_shards = 2;
    config.inputs = {path("in"), path("other")};
    write_input(lines_of_digits(1, 5'000), "other");
    events.write_manifest = [this](const PipelineReport& report, size_t k,
                                   const std::filesystem::path& to) {
      ManifestOrigin origin;
      origin.program_version = "1.0";
      origin.options = {{"shard", std::to_string(config.shard_idx) + "/2"}};
      write_manifest(to, report, k, origin);
    };
  }
  std::string shard(const std::string& name, int64_t index) {
    config.shard_idx = index;
    config.output_prefixes = {path(name + std::to_string(index))};
    run();
    return path(name + std::to_string(index));
  }
  // The error of a merge, or "".
  std::string error_of_merge(const std::vector<std::string>& prefixes) {
    MergeConfig merging;
    merging.prefixes.assign(prefixes.begin(), prefixes.end());
    merging.output_prefix = path("merged");
    merging.overwrite = true;
    try {
      notes = merge_datasets(merging, [] {}).notes;
    } catch (const std::runtime_error& error) {
      EXPECT_FALSE(std::filesystem::exists(path("merged.idx")));
      return error.what();
    }
    std::filesystem::remove(path("merged.idx"));
    return "";
  }
  std::vector<std::string> notes;
};

TEST_F(ShardVersions, OfTwoVersionsAreRefusedWithBothPartsAndTheInput) {
  write_input(lines_of_digits(1, 40'000));
  const std::string first = shard("a", 0);
  write_input(lines_of_digits(2, 44'000));
  const std::string second = shard("a", 1);
  EXPECT_THAT(error_of_merge({first, second}), AllOf(HasSubstr(first), HasSubstr(second),
                                                     HasSubstr("two versions of " + path("in"))));
  // Without manifests they are datasets as any others.
  for (const std::string& prefix : {first, second})
    std::filesystem::remove(dataset_manifest_path(prefix));
  EXPECT_EQ(error_of_merge({first, second}), "");
}

TEST_F(ShardVersions, OfTheSameSizeAndAnotherTimeAreRefused) {
  write_input(lines_of_digits(1, 40'000));
  const std::string first = shard("a", 0);
  std::filesystem::last_write_time(
      path("in"), std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_THAT(error_of_merge({first, shard("a", 1)}), HasSubstr("two versions of " + path("in")));
}

TEST_F(ShardVersions, OfAnInputThatOneShardHasNothingOfAreComparedToo) {
  write_input(lines_of_digits(1, 40'000));
  const std::string first = shard("a", 0);
  write_input(lines_of_digits(2, 6'000), "other");
  EXPECT_THAT(error_of_merge({first, shard("a", 1)}), HasSubstr(path("other")));
}

TEST_F(ShardVersions, OfSeveralRunsMayComeInAnyOrder) {
  write_input(lines_of_digits(1, 40'000));
  const std::string a0 = shard("a", 0), a1 = shard("a", 1);
  write_input(lines_of_digits(2, 44'000));
  const std::string b0 = shard("b", 0), b1 = shard("b", 1);
  EXPECT_EQ(error_of_merge({a0, a1}), "");
  EXPECT_THAT(notes, IsEmpty());
  EXPECT_EQ(error_of_merge({a0, a1, b0, b1}), "");
  EXPECT_THAT(notes, IsEmpty());
  EXPECT_EQ(error_of_merge({a0, b1, b0, a1}), "");
  EXPECT_THAT(notes, ElementsAre(HasSubstr("order")));
}

TEST_F(ShardVersions, ThatAreMissingOrThereTwiceAreRefused) {
  write_input(lines_of_digits(1, 40'000));
  const std::string first = shard("a", 0), second = shard("a", 1);
  EXPECT_THAT(error_of_merge({first}), HasSubstr("one of 2 shards, of which 1/2 is missing"));
  EXPECT_THAT(error_of_merge({second}), HasSubstr("one of 2 shards, of which 0/2 is missing"));
  EXPECT_THAT(error_of_merge({first, second, first}), HasSubstr("shard 0/2 is there twice"));
}

TEST_F(ShardVersions, WhoseOptionsAreNoneAreOfAnotherRun) {
  write_input(lines_of_digits(1, 40'000));
  const std::string first = shard("a", 0), second = shard("a", 1);
  auto manifest = nlohmann::ordered_json::parse(read_file(dataset_manifest_path(second)));
  manifest["run_options"] = 7;
  write_file_atomically(dataset_manifest_path(second), manifest.dump());
  EXPECT_THAT(error_of_merge({first, second}), HasSubstr("other options"));
  EXPECT_THAT(error_of_merge({second, first}), HasSubstr("other options"));
}

TEST_F(ShardVersions, OfOtherOptionsAreRefused) {
  write_input(lines_of_digits(1, 40'000));
  const std::string first = shard("a", 0);
  config.rules.append_eod = true;
  EXPECT_THAT(error_of_merge({first, shard("a", 1)}), HasSubstr("other options (--append-eod)"));
}

}  // namespace
}  // namespace weft
