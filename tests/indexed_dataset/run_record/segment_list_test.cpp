// Tests the list of a run's segments in files, and what is said of damaged ones.
#include "indexed_dataset/run_record/segment_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "indexed_dataset/run_record/checkpoint_run.h"
#include "indexed_dataset/run_record/manifest_checksum.h"
#include "indexed_dataset/run_record/read_segments.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

// Returns the words with which a function fails.
template <typename Function>
std::string error_of(Function function) {
  try {
    function();
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TEST(SegmentList, WritesWhatIsUnchangedOnceAndReadsItBack) {
  const Json blend = {{"prefixes", {"a", "b"}}}, other = {{"prefixes", {"c"}}};
  const std::vector<Json> segments = {
      {{"resumed_iteration", 0}, {"blends", blend}, {"datasets", Json::array()}, {"device", "CPU"}},
      {{"resumed_iteration", 3}, {"blends", blend}, {"datasets", {1}}, {"device", "CPU"}},
      {{"resumed_iteration", 5}, {"blends", blend}, {"datasets", {1}}},
      {{"resumed_iteration", 7}, {"blends", other}, {"device", "CPU"}},
      {{"resumed_iteration", 9}, {"datasets", {1}}, {"blends", other}}};
  const Json list = list_segments(segments);
  EXPECT_EQ(list[0], segments[0]);
  EXPECT_EQ(list[1]["blends"], "unchanged");
  EXPECT_EQ(list[1]["device"], "CPU");
  EXPECT_EQ(list[2].dump(),
            R"({"resumed_iteration":5,"blends":"unchanged","datasets":"unchanged"})");
  EXPECT_EQ(list[3]["blends"], other);
  EXPECT_EQ(list[4]["datasets"], Json({1}));
  EXPECT_EQ(segments_of_list(list), segments);
  EXPECT_EQ(segments_of_list(Json::parse(list.dump())), segments);
}

TEST(SegmentList, OfAManifestHasTheLastSegmentToo) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run_manifest.json";
  Json manifest = Json::parse(
      R"({"resumed_iteration": 5, "blends": {"a": 1}, "earlier": [{"resumed_iteration": 0}]})");
  add_checksum(manifest);
  std::ofstream(path) << manifest;
  const std::vector<Json> segments = read_manifest_segments(path);
  ASSERT_EQ(segments.size(), 2U);
  EXPECT_EQ(segments[0].dump(), R"({"resumed_iteration":0})");
  EXPECT_EQ(segments[1].dump(), R"({"resumed_iteration":5,"blends":{"a":1}})");
}

TEST(SegmentList, KeepsATextThatReadsLikeTheMark) {
  const std::vector<Json> segments = {{{"host", "unchanged"}, {"blends", {1}}},
                                      {{"host", "unchanged"}, {"blends", {1}}}};
  EXPECT_EQ(segments_of_list(list_segments(segments)), segments);
}

TEST(SegmentList, RefusesWhatIsNoList) {
  for (const char* text : {R"({})", R"([1])", R"("unchanged")"})
    EXPECT_THROW(segments_of_list(Json::parse(text)), std::runtime_error) << text;
}

TEST(RunManifest, SaysWhichFileAndMemberIsNoInteger) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run_manifest.json";
  const Json arguments = {{"data_path", {"a"}}, {"split", "1,0,0"},      {"seq_length", 16},
                          {"seed", 1},          {"eval_iters", 1},       {"eval_interval", 10},
                          {"train_iters", 30},  {"global_batch_size", 8}};
  for (const auto& [name, value] : {std::pair<std::string, Json>{"seed", 2e26},
                                    {"eval_iters", 1.5},
                                    {"rampup_batch_size", {2, 2, 1e30}},
                                    {"train_iters", "30"}}) {
    Json manifest = {{"format", kRunFormat}, {"arguments", arguments}, {"earlier", Json::array()}};
    manifest["arguments"][name] = value;
    add_checksum(manifest);
    std::ofstream(path) << manifest;
    const std::string error = error_of([&] { read_run(folder.path()); });
    EXPECT_THAT(error, StartsWith(path.string() + ": \"" + name + "\": an integer was expected"));
  }
}

TEST(RunManifest, OfAnotherFormatIsRefused) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run_manifest.json";
  for (const Json& format : {Json(), Json(kRunFormat + 1)}) {
    Json manifest = {{"format", format}, {"version", "9.9"}, {"earlier", Json::array()}};
    add_checksum(manifest);
    std::ofstream(path) << manifest;
    EXPECT_THAT(error_of([&] { read_run(folder.path()); }),
                StartsWith(path.string() + ": weft-train 9.9 wrote it, in format "));
  }
}

// Editors may have put a byte order mark before the tracker's number.
TEST(CheckpointRun, SaysWhichFileAndMemberIsNoInteger) {
  const TemporaryFolder folder;
  const std::filesystem::path checkpoint = folder / "iter_0000005",
                              path = checkpoint / "manifest.json";
  std::filesystem::create_directory(checkpoint);
  Json manifest = {{"info", {{"iteration", 4e77}}}};
  add_checksum(manifest);
  std::ofstream(path) << manifest;
  std::ofstream(folder / "latest_checkpointed_iteration.txt") << "\xEF\xBB\xBF"
                                                              << "5\n";
  for (const std::filesystem::path& load : {folder.path(), checkpoint}) {
    EXPECT_EQ(error_of([&] { read_run_of_checkpoint(load); }),
              path.string() + ": \"iteration\": an integer was expected, not 4e+77");
  }
}

}  // namespace
}  // namespace weft
