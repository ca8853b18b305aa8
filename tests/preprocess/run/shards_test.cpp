// Parts of the work put together are the whole, to the last byte of what stands beside the pair.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/merge/merge.h"
#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "preprocess/run/run_manifest.h"
#include "tests/preprocess/compressed/compressors.h"
#include "tests/preprocess/small_run.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kShards = 3;

class Shards : public ::testing::Test, protected SmallRun {
 protected:
  Shards() {
    config.task_bytes = 200'000;
    config.num_workers = 2;
  }

  // Six parts; lines go over their borders.
  static std::vector<std::string> texts(uint32_t seed) {
    const std::string text = lines_of_digits(seed, 3'600'000);
    std::vector<std::string> parts;
    for (size_t at = 0; at < text.size(); at += 610'001) parts.push_back(text.substr(at, 610'001));
    return parts;
  }
  static std::string zstd_frames(uint32_t seed) {
    std::string frames;
    for (const std::string& text : texts(seed)) frames += zstd(text);
    return frames;
  }

  void run_shards() {
    run();
    for (int64_t i = 0; i < kShards; ++i) {
      config.shard_idx = i;
      config.num_shards = kShards;
      config.output_prefixes = {shard(i)};
      run();
    }
  }
  std::string shard(int64_t i) const { return path("shard" + std::to_string(i)); }

  MergeReport merge(const std::string& output, const std::vector<std::string>& prefixes) const {
    MergeConfig merging;
    merging.prefixes.assign(prefixes.begin(), prefixes.end());
    merging.output_prefix = output;
    merging.overwrite = true;
    return merge_datasets(merging, [] {});
  }
  void expect_whole(const std::string& prefix) const {
    for (const char* suffix : {".bin", ".idx", ".sources"}) {
      EXPECT_TRUE(read_file(prefix + suffix) == read_file(path("out") + suffix)) << suffix;
    }
  }
};

TEST_F(Shards, MergedShardsAreTheWholeForEveryFormat) {
  std::string plain;
  for (const std::string& text : texts(3)) plain += text;
  write_input(zstd_frames(1), "a.zst");
  write_input(xz_blocks(texts(2)), "b.xz");
  write_input(plain, "c");
  write_input("", "empty");
  write_input(gzip("{\"text\":\"x\"}\n"), "d.gz");
  const std::map<std::string, std::vector<std::string>> cases = {
      {"zstd", {"a.zst"}},
      {"xz", {"b.xz"}},
      {"plain", {"c"}},
      {"all", {"empty", "a.zst", "d.gz", "c", "empty", "b.xz", "a.zst"}}};
  for (const auto& [name, inputs] : cases) {
    SCOPED_TRACE(name);
    config.inputs.clear();
    for (const std::string& input : inputs) config.inputs.push_back(path(input));
    config.num_shards = 1;
    config.shard_idx = 0;
    config.output_prefixes = {path("out")};
    run_shards();
    EXPECT_THAT(merge(path("merged"), {shard(0), shard(1), shard(2)}).notes, IsEmpty());
    expect_whole(path("merged"));
    // In two steps, whichever comes first.
    merge(path("first"), {shard(0), shard(1)});
    merge(path("merged"), {path("first"), shard(2)});
    expect_whole(path("merged"));
    merge(path("last"), {shard(1), shard(2)});
    merge(path("merged"), {shard(0), path("last")});
    expect_whole(path("merged"));
    for (int64_t i = 0; i < kShards; ++i) {
      const SourceMap map(shard(i) + ".sources");
      if (name == "xz") continue;  // it belongs to one shard
      EXPECT_GT(map.num_documents(), 100);
    }
  }
}

TEST_F(Shards, ShardsOfACompressedInputHaveNoSourcesWithoutThePartBefore) {
  write_input(zstd_frames(1));
  run_shards();
  const std::vector<std::vector<std::string>> wrong = {
      {shard(0), shard(2)}, {shard(1), shard(0)}, {path("out"), shard(1)}, {shard(1), shard(1)}};
  for (const auto& prefixes : wrong) {
    EXPECT_THAT(merge(path("merged"), prefixes).notes,
                ElementsAre(HasSubstr("the part before it does not come before it")));
    EXPECT_FALSE(std::filesystem::exists(path("merged.sources")));
  }
  // The whole twice, and all parts twice, are well.
  merge(path("twice"), {path("out"), path("out")});
  merge(path("merged"), {shard(0), shard(1), shard(2), shard(0), shard(1), shard(2)});
  EXPECT_TRUE(read_file(path("merged.sources")) == read_file(path("twice.sources")));
}

TEST_F(Shards, ShardsOfAPlainInputCountFromItsBegin) {
  std::string plain;
  for (const std::string& text : texts(3)) plain += text;
  write_input(plain);
  run_shards();
  const SourceMap whole(path("out.sources"));
  int64_t document = 0;
  for (int64_t i = 0; i < kShards; ++i) {
    const SourceMap map(shard(i) + ".sources");
    const InputPart& part = map.parts().at(0).value();
    EXPECT_TRUE(part.counts_from_input);
    EXPECT_EQ(part.num_bytes, part.file_end - part.file_begin);
    for (int64_t k = 0; k < map.num_documents(); ++k, ++document) {
      ASSERT_EQ(map.entry(k).offset_bytes, whole.entry(document).offset_bytes);
    }
  }
  EXPECT_EQ(document, whole.num_documents());
  EXPECT_THAT(merge(path("merged"), {shard(0), shard(2)}).notes, IsEmpty());
  EXPECT_TRUE(SourceMap(path("merged.sources")).parts().at(0));
}

// The number of lines before a part is unknown, and the message must not pretend to know it.
TEST_F(Shards, BadLinesOfAPartThatBeginsWithinAnInputAreSaidToCountFromThere) {
  const auto bad_lines = [&](const std::string& text, const std::string& compressed) {
    write_input(compressed, "a");
    write_input("no JSON\n", "b");
    config.inputs = {path("a"), path("b")};
    config.num_shards = 2;
    config.shard_idx = 1;
    std::vector<std::string> messages;
    for (const BadLine& bad_line : run().shown_bad_lines) messages.push_back(bad_line.message());
    EXPECT_GT(text.size(), 0u);
    return messages;
  };
  std::string text = lines_of_digits(4, 2'000'000);
  const size_t bad_at = text.find('\n', 1'500'000) + 1;
  text.insert(bad_at, "no JSON\n");
  const auto lines_until = [&](size_t begin) {
    return std::to_string(std::count(text.begin() + static_cast<ptrdiff_t>(begin),
                                     text.begin() + static_cast<ptrdiff_t>(bad_at), '\n'));
  };
  const std::string name_of_b = path("b") + ":1: (byte 0) not valid JSON";

  // A plain file is cut anywhere: shard 1 begins with the first line behind the cut.
  config.task_bytes = 100'000;
  auto messages = bad_lines(text, text);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_THAT(messages[0], HasSubstr(path("a") + ": line "));
  EXPECT_THAT(messages[0], HasSubstr(" of this part (byte " + std::to_string(bad_at) +
                                     " of the file): not valid JSON"));
  EXPECT_THAT(messages[1], HasSubstr(name_of_b)) << "this input is in the part from its begin";

  // Shard 1 has the last two of four frames of about 0.5 MB.
  const size_t quarter = text.size() / 4;
  std::string frames;
  for (size_t i = 0; i < 4; ++i) {
    frames += zstd(text.substr(i * quarter, i == 3 ? std::string::npos : quarter));
  }
  config.task_bytes = 200'000;
  messages = bad_lines(text, frames);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_THAT(messages[0], HasSubstr(" of this part (byte " + std::to_string(bad_at - 2 * quarter) +
                                     " of the part): not valid JSON"));
  EXPECT_THAT(messages[0], HasSubstr(": line " + lines_until(2 * quarter) + " of this part"));
  EXPECT_THAT(messages[1], HasSubstr(name_of_b));

  // The error that ends a run says it likewise; the part with the input's begin counts as ever.
  config.rules.on_bad_line = OnBadLine::kStop;
  try {
    run();
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr(" of the part): not valid JSON"));
  }
  config.rules.on_bad_line = OnBadLine::kSkip;
  write_input("no JSON\n" + text, "a");
  config.shard_idx = 0;
  EXPECT_THAT(run().shown_bad_lines.at(0).message(), HasSubstr(path("a") + ":1: (byte 0) "));
}

TEST_F(Shards, MergedShardsHaveTheInputsOfTheWholeInTheirManifest) {
  events.write_manifest = [this](const PipelineReport& report, size_t k,
                                 const std::filesystem::path& to) {
    ManifestOrigin origin;
    if (config.num_shards > 1)
      origin.options = {{"shard", std::to_string(config.shard_idx) + "/3"}};
    write_manifest(to, report, k, origin);
  };
  std::string plain;
  for (const std::string& text : texts(3)) plain += text;
  write_input(zstd_frames(1), "a.zst");
  write_input(plain, "b");
  write_input("", "empty");
  config.inputs = {path("a.zst"), path("empty"), path("b"), path("b")};
  run_shards();
  const auto manifest_of = [](const std::string& prefix) {
    return nlohmann::ordered_json::parse(read_file(dataset_manifest_path(prefix)));
  };
  const auto inputs_of_merged = [&](const std::vector<std::string>& prefixes) {
    merge(path("merged"), prefixes);
    return manifest_of(path("merged")).value("inputs", nlohmann::ordered_json());
  };
  const auto whole = manifest_of(path("out"))["inputs"];
  ASSERT_EQ(whole.size(), 4U);
  EXPECT_EQ(inputs_of_merged({shard(0), shard(1), shard(2)}), whole);
  auto twice = whole;
  twice.insert(twice.end(), whole.begin(), whole.end());
  EXPECT_EQ(inputs_of_merged({path("out"), shard(0), shard(1), shard(2)}), twice);
  merge(path("first"), {shard(0), shard(1), shard(2)});
  EXPECT_EQ(inputs_of_merged({path("first"), path("out")}), twice);
  const std::vector<std::vector<std::string>> not_in_order = {
      {shard(0), shard(2), shard(1)}, {shard(0), path("out"), shard(1), shard(2)}};
  for (const auto& prefixes : not_in_order) EXPECT_TRUE(inputs_of_merged(prefixes).is_null());
  // Parts of which something is not known are no whole; those of other files, or by other options,
  // are of another run.
  constexpr int kNumUnknown = 3;
  const auto damage = [](auto& manifest, int what) {
    if (what == 0) manifest["inputs"][2]["lines"] = "xyz";
    if (what == 1) manifest["inputs"][2]["lines"] = -1;
    if (what == 2) manifest["inputs"][2]["file_bytes"] = INT64_MAX;
    if (what == 3) manifest["inputs"][0]["version"] = "changed 1.5";
    if (what == 4) manifest["inputs"].erase(1);
    if (what == 5) manifest["run_options"]["--append-eod"] = "perhaps";
    if (what == 6) manifest.erase("inputs");
    if (what == 7) manifest["options"]["shard"] = "1/4";
  };
  const auto sound = manifest_of(shard(1));
  for (int what = 0; what < 8; ++what) {
    auto damaged = sound;
    damage(damaged, what);
    write_file_atomically(dataset_manifest_path(shard(1)), damaged.dump());
    if (what < kNumUnknown) {
      EXPECT_TRUE(inputs_of_merged({shard(0), shard(1), shard(2)}).is_null()) << what;
    } else {
      EXPECT_THROW(inputs_of_merged({shard(0), shard(1), shard(2)}), std::runtime_error) << what;
    }
  }
}

TEST(InputPartOfASourceMap, IsReadBackAndDamageIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.sources";
  const InputPart part{5, 9, 12, 1234, false};
  seal_source_map(path, 0, {"a", "b"}, {std::nullopt, part});
  const SourceMap map(path);
  EXPECT_FALSE(map.parts().at(0));
  EXPECT_EQ(map.parts().at(1)->file_begin, 5);
  EXPECT_EQ(map.parts().at(1)->file_end, 9);
  EXPECT_EQ(map.parts().at(1)->file_bytes, 12);
  EXPECT_EQ(map.parts().at(1)->num_bytes, 1234);
  EXPECT_FALSE(map.parts().at(1)->counts_from_input);
  for (const InputPart& wrong :
       {InputPart{-1, 9, 12, 1}, InputPart{0, -2, 12, 1}, InputPart{0, 1, -2, 1},
        InputPart{0, 1, 2, -1}, InputPart{INT64_MAX, INT64_MAX, INT64_MAX, 1}}) {
    seal_source_map(path, 0, {"a"}, {wrong});
    EXPECT_THROW(SourceMap{path}, std::runtime_error);
  }
}

}  // namespace
}  // namespace weft
