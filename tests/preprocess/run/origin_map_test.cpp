// Origins from the line to PREFIX.sources, and through everything that copies entries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/merge/merge.h"
#include "indexed_dataset/format/pair/reader.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "indexed_dataset/format/soundness/verify.h"
#include "preprocess/run/run_manifest.h"
#include "tests/indexed_dataset/dataset_writer.h"
#include "tests/indexed_dataset/test_files.h"
#include "tests/preprocess/small_run.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

std::vector<std::string> origins_in(const fs::path& path) {
  const SourceMap map(path);
  std::vector<std::string> origins;
  for (int64_t i = 0; i < map.num_documents(); ++i)
    origins.emplace_back(std::string(map.entry(i).origin.view()));
  return origins;
}

// A dataset of documents of one token with such origins, without a place for them unless
// `has_origins`.
void write_dataset(const fs::path& prefix, const std::vector<std::string>& origins,
                   bool has_origins) {
  DatasetWriter writer(prefix, TokenType::kUInt16);
  std::vector<std::byte> entries;
  for (size_t i = 0; i < origins.size(); ++i) {
    const auto token = static_cast<uint16_t>(i);
    const int32_t length = 1;
    writer.append_documents(std::as_bytes(std::span(&token, 1)), std::span(&length, 1));
    append_source_entry(entries, {0, static_cast<int64_t>(i), origin_of(origins[i])}, has_origins);
  }
  writer.finish();
  OutputFile(sources_path(prefix)).write_at(entries.data(), entries.size(), source_entry_at(0));
  seal_source_map(sources_path(prefix), std::ssize(origins), {"in"}, {}, has_origins);
}

TEST(SourceMapWithOrigins, OriginsComeBack) {
  const TemporaryFolder folder;
  write_dataset(folder.path() / "d", {"a", "", "https://x.org/y"}, true);
  const SourceMap map(folder.path() / "d.sources");
  EXPECT_TRUE(map.has_origins());
  EXPECT_EQ(map.inputs(), std::vector<std::string>{"in"});
  EXPECT_EQ(map.entry(2).offset_bytes, 2);
  EXPECT_THAT(origins_in(folder.path() / "d.sources"), ElementsAre("a", "", "x.org"));
  EXPECT_EQ(read_file(folder.path() / "d.sources").find("{\"inputs\""), size_t{64 + 3 * 44});
}

TEST(SourceMapWithOrigins, ADamagedSourceMapIsRefused) {
  const TemporaryFolder folder(memory_folder());
  const fs::path path = folder.path() / "d.sources";
  write_dataset(folder.path() / "d", {"abc", "b"}, true);
  const std::string whole = read_file(path);
  for (size_t size = 0; size < whole.size(); ++size) {
    write_file_atomically(path, whole.substr(0, size));
    EXPECT_THROW(SourceMap{path}, std::runtime_error) << size;
  }
  const auto with = [&](size_t at, char c) {
    std::string damaged = whole;
    damaged[at] = c;
    write_file_atomically(path, damaged);
  };
  with(64 + 12, '\xFF');
  EXPECT_THROW(SourceMap(path).entry(0), std::runtime_error);
  EXPECT_NO_THROW(SourceMap(path).entry(1));
  with(64 + 44 + 12 + 31, 'x');
  EXPECT_THROW(SourceMap(path).entry(1), std::runtime_error);
  with(12, 0);  // entries without origins would end elsewhere
  EXPECT_THROW(SourceMap{path}, std::runtime_error);
  with(8, 2);
  EXPECT_THROW(SourceMap{path}, std::runtime_error);
}

TEST(SourceMapWithOrigins, PartsWithAndWithoutOriginsAreMerged) {
  const TemporaryFolder folder;
  const auto at = [&](const char* name) { return folder.path() / name; };
  const auto merge = [&](const std::vector<fs::path>& prefixes) {
    return merge_datasets({prefixes, at("m"), {}, 2, true, "1", {}}, [] {});
  };
  write_dataset(at("a"), {"a", "b"}, true);
  write_dataset(at("b"), {"c", "d"}, false);
  write_dataset(at("c"), {"e"}, true);
  merge({at("a"), at("c"), at("a")});
  EXPECT_THAT(origins_in(at("m.sources")), ElementsAre("a", "b", "e", "a", "b"));
  merge({at("b"), at("a"), at("b"), at("c")});
  EXPECT_THAT(origins_in(at("m.sources")), ElementsAre("", "", "a", "b", "", "", "e"));
  EXPECT_TRUE(verify_dataset(at("m"), 0).empty());
  merge({at("b"), at("b")});
  EXPECT_FALSE(SourceMap(at("m.sources")).has_origins());
}

TEST(SourceMapWithOrigins, DamagedBlocksNameTheirDocuments) {
  const TemporaryFolder folder(memory_folder());
  const fs::path prefix = folder.path() / "d";
  // Entries in two blocks of 16 MiB; the first entry of the second block begins before it.
  constexpr int64_t kNumDocuments = 400'000;
  write_dataset(prefix, std::vector<std::string>(kNumDocuments, "x"), true);
  const std::vector<DatasetFile> files = {{".bin", prefix.string() + ".bin"},
                                          {".idx", prefix.string() + ".idx"},
                                          {".sources", sources_path(prefix)}};
  write_block_checksums(checksums_path(prefix), files, 1);
  OutputFile(sources_path(prefix), true).write_at("x", 1, kChecksumBlockBytes + 100);
  const int64_t first = (kChecksumBlockBytes - 64) / 44;
  EXPECT_THAT(verify_dataset_files(prefix, 0, 1).checksum_problems,
              ElementsAre(HasSubstr("the sources of documents " + std::to_string(first) + " to " +
                                    std::to_string(kNumDocuments - 1) + " lie there")));
}

class RunWithOrigins : public ::testing::Test, protected SmallRun {
 protected:
  RunWithOrigins() { config.rules.origin_key = "auto"; }
};

TEST_F(RunWithOrigins, OriginsAreKeptForEveryDocument) {
  write_input(
      "{\"text\":\"a\",\"url\":\"https://www.one.org/\"}\n"
      "{\"text\":\"\",\"meta\":{\"url\":\"https://empty.org/\"}}\n"
      "bad\n"
      "{\"url\":\"https://bad.org\",\"text\":3}\n"
      "{\"text\":\"b\"}\n"
      "{\"text\":[\"c\",\"d\"],\"source\":\"lists\"}\n"
      "{\"text\":\"\\ud800\",\"url\":\"a\\ud800b\"}\n");
  const PipelineReport report = run();
  EXPECT_THAT(origins_in(path("out.sources")), ElementsAre("one.org", "empty.org", "", "lists",
                                                           "a\uFFFD"
                                                           "b"));
  EXPECT_EQ(report.totals.num_replaced_surrogates, 1);  // in texts
  config.rules.empty_documents = EmptyDocuments::kSkip;
  run();
  EXPECT_THAT(origins_in(path("out.sources")), ElementsAre("one.org", "", "lists",
                                                           "a\uFFFD"
                                                           "b"));
  config.rules.origin_key = "none";
  run();
  EXPECT_EQ(read_file(path("out.sources")).find("{\"inputs\""), size_t{64 + 4 * 12});
  EXPECT_EQ(read_file(path("out.sources"))[12], 0);
}

// The memory of a long text is gone behind its tokens; its origin is not, wherever it stands.
TEST_F(RunWithOrigins, OriginsOfLongLinesAreKept) {
  std::string text;
  while (text.size() < (size_t{9} << 20)) text += "some words of a long line ";
  write_input("{\"url\":\"https://front.org\",\"text\":\"" + text + "\"}\n{\"text\":\"" + text +
              "\",\"url\":\"https:\\/\\/back.org\"}\n");
  run();
  EXPECT_THAT(origins_in(path("out.sources")), ElementsAre("front.org", "back.org"));
  config.rules.origin_key = "text";
  run();
  EXPECT_THAT(origins_in(path("out.sources")), ElementsAre("some words of a long line som\u2026",
                                                           "some words of a long line som\u2026"));
}

TEST_F(RunWithOrigins, OriginsAreKeptForEveryKey) {
  std::string text;
  for (int i = 0; i < 10; ++i) {
    const std::string n = std::to_string(i);
    text += "{\"text\":\"a\",\"title\":\"b\",\"url\":\"https://" + n + ".org\"}\n";
  }
  write_input(text);
  config.rules.json_keys = {"text", "title"};
  config.output_prefixes = {path("out"), path("title")};
  run();
  for (const char* name : {"out.sources", "title.sources"}) {
    EXPECT_THAT(origins_in(path(name)), ElementsAre("0.org", "1.org", "2.org", "3.org", "4.org",
                                                    "5.org", "6.org", "7.org", "8.org", "9.org"));
  }
}

TEST_F(RunWithOrigins, TheOriginKeyIsAnOptionOfTheRun) {
  events.write_manifest = [](const PipelineReport& report, size_t k, const fs::path& to) {
    write_manifest(to, report, k, {});
  };
  write_input("{\"text\":\"a\",\"url\":\"https://x.org\"}\n");
  run();
  config.overwrite = false;
  EXPECT_TRUE(run_pipeline(config, vocabulary, events).was_there);
  config.rules.origin_key = "none";
  EXPECT_THROW(run(), std::invalid_argument);
  config.is_origin_key_default = true;  // nobody asked for a dataset without
  EXPECT_TRUE(run().was_there);
  config.rules.origin_key = "auto";
  EXPECT_TRUE(run().was_there);
  config.rules.append_eod = true;
  EXPECT_THROW(run(), std::invalid_argument);
  config.rules.append_eod = false;
  config.overwrite = true;
  config.rules.origin_key = "none";
  run();
  config.overwrite = false;
  config.rules.origin_key = "auto";
  EXPECT_TRUE(run().was_there);
  config.is_origin_key_default = false;
  EXPECT_THROW(run(), std::invalid_argument);
}

}  // namespace
}  // namespace weft
