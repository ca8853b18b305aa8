// Shards of two versions of a corpus are not one dataset: merge tells them apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
using ::testing::UnorderedElementsAre;
using Json = nlohmann::ordered_json;

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
  static void edit_manifest(const std::string& prefix, const std::function<void(Json&)>& edit) {
    Json json = Json::parse(read_file(dataset_manifest_path(prefix)));
    edit(json);
    write_file_atomically(dataset_manifest_path(prefix), json.dump());
  }

  std::vector<std::string> notes;
};

TEST_F(ShardVersions, OfAnotherSizeAreRefusedWithBothPartsAndTheInput) {
  write_input(lines_of_digits(1, 40'000));
  const std::string first = shard("a", 0);
  write_input(lines_of_digits(2, 44'000));
  const std::string second = shard("a", 1);
  const auto names_all =
      AllOf(HasSubstr(first), HasSubstr(second), HasSubstr(path("in")), HasSubstr("two versions"));
  EXPECT_THAT(error_of_merge({first, second}), names_all);
  // The source maps alone say it, too.
  for (const std::string& prefix : {first, second})
    std::filesystem::remove(dataset_manifest_path(prefix));
  EXPECT_THAT(error_of_merge({first, second}), names_all);
}

TEST_F(ShardVersions, OfAnInputThatOneShardHasNothingOfAreComparedToo) {
  write_input(lines_of_digits(1, 40'000));
  const std::string first = shard("a", 0);
  write_input(lines_of_digits(2, 6'000), "other");
  EXPECT_THAT(error_of_merge({first, shard("a", 1)}), HasSubstr(path("other")));
}

TEST_F(ShardVersions, OfOneVersionAreMergedAndSoAreThoseOfSeveralRuns) {
  write_input(lines_of_digits(1, 40'000));
  const std::string a0 = shard("a", 0), a1 = shard("a", 1);
  EXPECT_EQ(error_of_merge({a0, a1}), "");
  EXPECT_THAT(notes, IsEmpty());
  write_input(lines_of_digits(2, 44'000));
  const std::string b0 = shard("b", 0), b1 = shard("b", 1);
  EXPECT_EQ(error_of_merge({a0, a1, b0, b1}), "") << "the names are equal, the runs are not";
  EXPECT_THAT(notes, IsEmpty());
  for (const std::string& prefix : {a0, a1, b0, b1})
    std::filesystem::remove(dataset_manifest_path(prefix));
  EXPECT_EQ(error_of_merge({a0, a1, b0, b1}), "");
}

TEST_F(ShardVersions, OfTheSameSizeAreNotedByTheirTimesAndRefusedByWhatAServerSays) {
  write_input(lines_of_digits(1, 40'000));
  const std::string first = shard("a", 0);
  std::filesystem::last_write_time(
      path("in"), std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const std::string second = shard("a", 1);
  EXPECT_EQ(error_of_merge({first, second}), "");
  EXPECT_THAT(notes, ElementsAre(AllOf(HasSubstr(path("in")), HasSubstr(first), HasSubstr(second),
                                       HasSubstr("time of change"))));
  edit_manifest(second, [](Json& json) { json["inputs"][0]["version"] = "etag \"2\""; });
  EXPECT_THAT(error_of_merge({first, second}), AllOf(HasSubstr("etag"), HasSubstr("two versions")));
}

TEST_F(ShardVersions, OfAnInputThatIsNamedTwiceAreComparedInTheirOrder) {
  write_input(lines_of_digits(1, 40'000));
  config.inputs = {path("in"), path("in")};
  const std::string first = shard("a", 0), second = shard("a", 1);
  const auto set_versions = [](const std::string& prefix, const char* one, const char* two) {
    edit_manifest(prefix, [&](Json& json) {
      json["inputs"][0]["version"] = one;
      json["inputs"][1]["version"] = two;
    });
  };
  set_versions(first, "etag \"1\"", "etag \"2\"");
  set_versions(second, "etag \"1\"", "etag \"2\"");
  EXPECT_EQ(error_of_merge({first, second}), "");
  EXPECT_THAT(notes, IsEmpty());
  set_versions(second, "etag \"1\"", "etag \"3\"");
  EXPECT_THAT(error_of_merge({first, second}),
              HasSubstr("two versions of " + path("in") + " ('etag \"2\"' and 'etag \"3\"')"));
}

TEST_F(ShardVersions, AreComparedWithTheFirstOneThatKnowsTheVersion) {
  write_input(lines_of_digits(1, 40'000));
  const std::vector<std::string> shards = {shard("a", 0), shard("a", 1), shard("b", 1)};
  const char* versions[] = {"", "etag \"1\"", "etag \"2\""};
  for (size_t k = 0; k < shards.size(); ++k) {
    edit_manifest(shards[k], [&](Json& json) {
      json["options"]["shard"] = std::to_string(k) + "/3";
      json["inputs"][0]["version"] = versions[k];
    });
  }
  EXPECT_THAT(error_of_merge(shards),
              AllOf(HasSubstr("two versions"), HasSubstr(shards[1]), HasSubstr(shards[2])));
}

// A web server that gives no ETag, or mirrors of which each has a date of its own.
TEST_F(ShardVersions, OfTheSameSizeAndAnotherDateOnTheWebAreNotedOnce) {
  write_input(lines_of_digits(1, 40'000));
  const std::string first = shard("a", 0), second = shard("a", 1);
  const auto set_versions = [](const std::string& prefix, const std::string& in,
                               const std::string& other) {
    edit_manifest(prefix, [&](Json& json) {
      json["inputs"][0]["version"] = in;
      json["inputs"][1]["version"] = other;
    });
  };
  set_versions(first, "40000 changed Mon, 06 Jul 2026 08:00:00 GMT", "5000 changed Monday");
  set_versions(second, "40000 changed Tue, 07 Jul 2026 08:00:00 GMT", "5000 changed Tuesday");
  EXPECT_EQ(error_of_merge({first, second}), "");
  EXPECT_THAT(notes, ElementsAre(AllOf(HasSubstr(path("in")), HasSubstr("time of change"),
                                       HasSubstr("(1 other input likewise)"))));
  set_versions(second, "41000 changed Mon, 06 Jul 2026 08:00:00 GMT", "5000 changed Monday");
  EXPECT_THAT(error_of_merge({first, second}),
              AllOf(HasSubstr("two versions"), HasSubstr("'41000 changed")));
}

TEST_F(ShardVersions, OfSeveralRunsMayComeInAnyOrder) {
  write_input(lines_of_digits(1, 40'000));
  const std::string a0 = shard("a", 0), a1 = shard("a", 1);
  write_input(lines_of_digits(2, 44'000));
  const std::string b0 = shard("b", 0), b1 = shard("b", 1);
  // The same size, another time.
  std::filesystem::last_write_time(
      path("in"), std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const std::string c0 = shard("c", 0), c1 = shard("c", 1);
  config.inputs = {path("third")};
  write_input(lines_of_digits(3, 30'000), "third");
  const std::string d1 = shard("d", 1);
  for (const auto& order : std::vector<std::vector<std::string>>{{a0, b0, a1, b1},
                                                                 {a0, b1, b0, a1},
                                                                 {b0, c0, b1, c1},
                                                                 {c1, a1, b0, a0, b1, c0},
                                                                 {a0, d1, a1}}) {
    SCOPED_TRACE(::testing::PrintToString(order));
    EXPECT_EQ(error_of_merge(order), "");
    // The order of shards of one run is another matter.
    for (const std::string& note : notes) EXPECT_THAT(note, HasSubstr("order"));
  }
  EXPECT_THAT(error_of_merge({b0, a1, b1}), "") << "a shard that is missing is another matter, too";
  EXPECT_THAT(error_of_merge({a0, b1}), HasSubstr("two versions"));
}

TEST_F(ShardVersions, OfOtherProgramsAndOptionsAreNoted) {
  write_input(lines_of_digits(1, 40'000));
  const std::string first = shard("a", 0);
  config.rules.append_eod = true;
  const std::string second = shard("a", 1);
  edit_manifest(second, [](Json& json) { json["version"] = "2.0"; });
  EXPECT_EQ(error_of_merge({first, second}), "");
  EXPECT_THAT(notes,
              UnorderedElementsAre(HasSubstr("(--append-eod)"), HasSubstr("weft-data 1.0, ")));
}

}  // namespace
}  // namespace weft
