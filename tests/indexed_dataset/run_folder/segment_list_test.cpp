// Tests the list of a run's segments in files.
#include "indexed_dataset/run_folder/segment_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/temporary_folder.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

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

// As versions wrote it that knew no checksum.
TEST(SegmentList, OfAManifestHasTheLastSegmentToo) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run_manifest.json";
  std::ofstream(path)
      << R"({"resumed_iteration": 5, "blends": {"a": 1}, "earlier": [{"resumed_iteration": 0}]})";
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

}  // namespace
}  // namespace weft
