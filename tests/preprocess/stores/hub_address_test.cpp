// Addresses of the hub and patterns of paths, as text.
#include "preprocess/stores/hub_address.h"

#include <gtest/gtest.h>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/stores/path_pattern.h"

namespace weft {
namespace {

TEST(HubAddress, HasDatasetRevisionAndPath) {
  const HubAddress plain = parse_hub_address("hf://datasets/o/n.v-1_x/data/a@b.jsonl");
  EXPECT_EQ(plain.dataset, "o/n.v-1_x");
  EXPECT_EQ(plain.revision, "main");
  EXPECT_EQ(plain.path, "data/a@b.jsonl");
  EXPECT_EQ(parse_hub_address("hf://datasets/o/n").path, "");
  EXPECT_EQ(parse_hub_address("hf://datasets/o/n@v1/").path, "");
  EXPECT_EQ(parse_hub_address("hf://datasets/o/n@a%2Fb/x").revision, "a/b");
  const HubAddress parquet = parse_hub_address("hf://datasets/o/n@refs/convert/parquet/en/*/0.pq");
  EXPECT_EQ(parquet.revision, "refs/convert/parquet");
  EXPECT_EQ(parquet.path, "en/*/0.pq");
  EXPECT_EQ(parquet.at(parquet.revision, "x"), "hf://datasets/o/n@refs/convert/parquet/x");
  EXPECT_EQ(plain.at("a/b", "x y"), "hf://datasets/o/n.v-1_x@a%2Fb/x y");
  EXPECT_TRUE(parquet.resolve_url().ends_with("/o/n/resolve/refs%2Fconvert%2Fparquet/en/%2A/0.pq"));
}

TEST(HubAddress, RefusesWhatIsNone) {
  for (const char* address :
       {"hf://o/n/x", "hf://models/o/n/x", "hf://datasets/o", "hf://datasets/o/n@/x",
        "hf://datasets/o/n/../m", "hf://datasets/o/n//x", "hf://datasets/o/n/./x",
        "hf://datasets/o/n/x\ny", "hf://datasets/o n/m/x", "hf://datasets/../../x",
        "hf://datasets/o/../x", "hf://datasets/o/n@../x", "hf://datasets/o/n@%2E%2E/x"}) {
    EXPECT_THROW(parse_hub_address(address), UsageError) << address;
  }
  EXPECT_THROW(parse_hub_address("hf://datasets/o/n/" + std::string(100'000, 'x')), UsageError);
}

TEST(HubAddress, ACommitThatHasMovedIsNamed) {
  const std::string one(40, '1'), two(40, '2'), at = "hf://datasets/o/n@";
  EXPECT_EQ(describe_moved_commit({"x", at + one + "/a"}, {at + one + "/a", at + one + "/b"}), "");
  EXPECT_EQ(describe_moved_commit({at + one + "/a"}, {"hf://datasets/o/m@" + two + "/a"}), "");
  const std::string moved = describe_moved_commit({at + one + "/a"}, {at + two + "/b"});
  EXPECT_TRUE(moved.starts_with("'o/n' has moved on the hub: it was at commit " + one)) << moved;
  EXPECT_NE(moved.find(at + one + "/..."), moved.npos) << moved;
}

TEST(PathPattern, FitsAsPatternsOfFilesDo) {
  const auto fits = [](const char* pattern, const char* path) {
    return fit_of_path(pattern, path);
  };
  EXPECT_EQ(fits("a/b.jsonl", "a/b.jsonl"), PathFit::kItself);
  EXPECT_EQ(fits("a", "a/b/c.jsonl"), PathFit::kInFolder);
  EXPECT_EQ(fits("a/", "a/b/c.jsonl"), PathFit::kInFolder);
  EXPECT_EQ(fits("", "a/b/c.jsonl"), PathFit::kInFolder);
  EXPECT_EQ(fits("a", "ab/c.jsonl"), PathFit::kNone);
  EXPECT_EQ(fits("a/*.jsonl", "a/b/c.jsonl"), PathFit::kNone);
  EXPECT_EQ(fits("a/*/[bc].*", "a/b/c.jsonl"), PathFit::kItself);
  EXPECT_EQ(fits("**/c.jsonl", "a/b/c.jsonl"), PathFit::kItself);
  EXPECT_EQ(fits("**/c.jsonl", "c.jsonl"), PathFit::kItself);
  EXPECT_EQ(fits("a/**", "a/b/c.jsonl"), PathFit::kInFolder);
  EXPECT_EQ(fits("**/c.jsonl", ".a/c.jsonl"), PathFit::kNone);
  EXPECT_EQ(fits("*/c.jsonl", ".a/c.jsonl"), PathFit::kNone);
  EXPECT_EQ(fits(".*/c.jsonl", ".a/c.jsonl"), PathFit::kItself);
  EXPECT_EQ(folder_before_wildcard("a/b/c*/d"), "a/b/");
  EXPECT_EQ(folder_before_wildcard("*.jsonl"), "");
}

}  // namespace
}  // namespace weft
