// The files beside the pair: source map and block checksums.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "indexed_dataset/format/soundness/verify.h"
#include "tests/indexed_dataset/test_files.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Error>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

void write_sources(const std::filesystem::path& path, const std::vector<SourceEntry>& entries,
                   const std::vector<std::string>& inputs) {
  std::vector<std::byte> bytes;
  for (const SourceEntry& entry : entries) append_source_entry(bytes, entry);
  {
    OutputFile file(path);
    file.write_at(bytes.data(), bytes.size(), source_entry_at(0));
    file.append("leftover", 8);
  }
  seal_source_map(path, static_cast<int64_t>(entries.size()), inputs);
}

TEST(SourceMap, GivesBackInputAndOffset) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.sources.part";
  write_sources(path, {{0, 0}, {0, 17}, {1, int64_t{1} << 40}}, {"a.jsonl", "b \"\xff\".zst"});
  const SourceMap map(path);
  EXPECT_EQ(map.num_documents(), 3);
  EXPECT_THAT(map.inputs(), ElementsAre("a.jsonl", "b \"\xEF\xBF\xBD\".zst"));
  EXPECT_EQ(map.entry(1).input_idx, 0u);
  EXPECT_EQ(map.entry(1).offset_bytes, 17);
  EXPECT_EQ(map.entry(2).input_idx, 1u);
  EXPECT_EQ(map.entry(2).offset_bytes, int64_t{1} << 40);
  EXPECT_THROW(map.entry(3), std::out_of_range);
  EXPECT_THROW(map.entry(-1), std::out_of_range);
  const std::string first = read_file(path);
  seal_source_map(path, 3, {"a.jsonl", "b \"\xff\".zst"});
  EXPECT_EQ(read_file(path), first);
}

TEST(SourceMap, SaysForEachInputWhetherLocatorsAreBytesOrRows) {
  const TemporaryFolder folder(memory_folder());
  const auto path = folder.path() / "x.sources";
  write_sources(path, {{0, 17}, {1, 3}}, {"a.jsonl", "b.parquet"});
  EXPECT_EQ(SourceMap(path).describe(1), "b.parquet, byte 3");
  seal_source_map(path, 2, {"a.jsonl", "b.parquet"}, {}, false, {Locator::kByte, Locator::kRow});
  const SourceMap map(path);
  EXPECT_THAT(map.locators(), ElementsAre(Locator::kByte, Locator::kRow));
  EXPECT_EQ(map.describe(0), "a.jsonl, byte 17");
  EXPECT_EQ(map.describe(1), "b.parquet, row 3");
  std::string other = read_file(path);
  other.replace(other.find("\"row\""), 5, "\"col\"");
  write_file_atomically(path, other);
  EXPECT_THAT(message_of<std::runtime_error>([&] { SourceMap{path}; }),
              HasSubstr("no locator is called col"));
}

TEST(SourceMap, HoldsNoDocument) {
  const TemporaryFolder folder;
  write_sources(folder.path() / "x", {}, {"a"});
  EXPECT_EQ(SourceMap(folder.path() / "x").num_documents(), 0);
  OutputFile(folder.path() / "y").close();
  seal_source_map(folder.path() / "y", 0, {});
  EXPECT_EQ(SourceMap(folder.path() / "y").num_documents(), 0);
  EXPECT_THROW(seal_source_map(folder.path() / "y", 1000, {}), std::logic_error);
}

TEST(SourceMap, RefusesDamage) {
  const TemporaryFolder folder(memory_folder());
  const auto path = folder.path() / "x.sources";
  write_sources(path, {{0, 5}, {0, 10}}, {"a"});
  const std::string sound = read_file(path);
  const auto with = [&](size_t at, const std::string& bytes) {
    write_file_atomically(path, std::string(sound).replace(at, bytes.size(), bytes));
    return message_of<std::runtime_error>([&] {
      const SourceMap map(path);
      for (int64_t i = 0; i < map.num_documents(); ++i) map.entry(i);
    });
  };
  EXPECT_THAT(with(0, "X"), AllOf(HasSubstr("not a source map"), HasSubstr("move the file away")));
  EXPECT_THAT(with(8, "\x02"), HasSubstr("version 2"));
  EXPECT_THAT(with(12, "\x02"), HasSubstr("damaged at byte 12"));
  EXPECT_THAT(with(16, std::string(8, '\xff')), HasSubstr("truncated or damaged"));
  // 12 * 0x1555555555555556 is 8 in 64 bits.
  EXPECT_THAT(with(16, "\x56\x55\x55\x55\x55\x55\x55\x15"), HasSubstr("truncated or damaged"));
  EXPECT_THAT(with(24, "\x07"), HasSubstr("says 7 inputs"));
  EXPECT_THAT(with(32, "\x01"), HasSubstr("truncated or damaged"));
  EXPECT_THAT(with(76, "\x01"), HasSubstr("document 1 (byte 76) names input 1 of 1"));
  EXPECT_THAT(with(87, "\x80"), AllOf(HasSubstr("it is damaged"), HasSubstr("move the file away")));
  EXPECT_THAT(with(88, "["), HasSubstr("list of inputs at its end is damaged"));
  EXPECT_THAT(with(88, "{\"inputs\": 17, \"x\": \""), HasSubstr("damaged"));
  for (size_t size = 0; size < sound.size(); ++size) {
    write_file_atomically(path, sound.substr(0, size));
    EXPECT_THROW(SourceMap{path}, std::runtime_error) << size;
  }
}

std::string patterned(size_t size, uint32_t seed) {
  std::string text(size, '\0');
  for (char& byte : text) byte = static_cast<char>((seed = seed * 1664525 + 1013904223) >> 24);
  return text;
}

TEST(BlockChecksums, AreThoseOfEveryBlockForAnyNumberOfThreads) {
  const TemporaryFolder folder;
  const std::string bin = patterned(2 * kChecksumBlockBytes + 5, 1);
  write_file_atomically(folder.path() / "d.bin.part", bin);
  write_file_atomically(folder.path() / "d.idx.part", "index");
  write_file_atomically(folder.path() / "d.sources.part", "");
  const std::vector<DatasetFile> files = {{".bin", folder.path() / "d.bin.part"},
                                          {".idx", folder.path() / "d.idx.part"},
                                          {".sources", folder.path() / "d.sources.part"}};
  write_block_checksums(checksums_path(folder.path() / "d"), files, 3);
  const std::string text = read_file(folder.path() / "d.checksums");
  write_block_checksums(folder.path() / "one", files, 1);
  EXPECT_EQ(read_file(folder.path() / "one"), text);
  EXPECT_THAT(text, HasSubstr("file .bin 33554437 bytes\n"));
  EXPECT_THAT(text, HasSubstr("file .idx 5 bytes\n"));

  const auto read = read_block_checksums(folder.path() / "d.checksums").value();
  ASSERT_EQ(read.size(), 3u);
  const auto in_memory = compute_block_checksums(".bin", std::as_bytes(std::span(bin)));
  EXPECT_EQ(read[0].blocks, in_memory.blocks);
  EXPECT_EQ(read[0].blocks.size(), 3u);
  EXPECT_EQ(read[1].suffix, ".idx");
  EXPECT_EQ(read[1].size_bytes, 5);
  EXPECT_TRUE(read[2].blocks.empty());
  EXPECT_FALSE(read_block_checksums(folder.path() / "absent").has_value());
}

TEST(BlockChecksums, IsXxh3OfThePublishedVectors) {
  // XXH3_64bits without seed, as in the tests of xxHash's bindings.
  const std::string text = "abc";
  EXPECT_THAT(compute_block_checksums("", std::as_bytes(std::span(text))).blocks,
              ElementsAre(0x78AF5F94892F3950));
}

TEST(BlockChecksums, EveryByteIsSeenOnce) {
  const TemporaryFolder folder;
  const std::string bin = patterned(kChecksumBlockBytes + 3000000, 2);
  write_file_atomically(folder.path() / "b", bin);
  const std::vector<DatasetFile> files = {{".bin", folder.path() / "b"}};
  std::string seen(bin.size(), '\0');
  compute_block_checksums(files, 2, [&](size_t, int64_t at, std::span<const std::byte> bytes) {
    std::memcpy(seen.data() + at, bytes.data(), bytes.size());
  });
  EXPECT_TRUE(seen == bin);
}

TEST(BlockChecksums, EveryFlippedBitOfTheListIsDamage) {
  const TemporaryFolder folder(memory_folder());
  const auto path = folder.path() / "x.checksums";
  write_file_atomically(folder.path() / "b", "bytes");
  write_block_checksums(path, std::vector<DatasetFile>{{".bin", folder.path() / "b"}}, 1);
  const std::string sound = read_file(path);
  for (size_t bit = 0; bit < 8 * sound.size(); ++bit) {
    std::string damaged = sound;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    OutputFile file(path);
    file.append(damaged.data(), damaged.size());
    EXPECT_THROW(read_block_checksums(path), ChecksumMismatch) << bit;
  }
  for (size_t size = 0; size < sound.size(); ++size) {
    OutputFile file(path);
    file.append(sound.data(), size);
    EXPECT_THROW(read_block_checksums(path), ChecksumMismatch) << size;
  }
}

TEST(BlockChecksums, RefusesHostileLists) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.checksums";
  const auto message = [&](const std::vector<FileChecksums>& files) {
    write_block_checksums(path, files);  // with a last line that fits
    return message_of<std::runtime_error>([&] { read_block_checksums(path); });
  };
  EXPECT_THAT(message({{"/../../x", 0, {}}}), HasSubstr("no line 'file"));
  EXPECT_THAT(message({{"./../x", 0, {}}}), HasSubstr("suffix"));
  EXPECT_THAT(message({{".bin", -1, {}}}), HasSubstr("size"));
  EXPECT_THAT(message({{".bin", INT64_MAX, {}}}), HasSubstr("16 hexadecimal digits"));
  EXPECT_THAT(message({{".bin", 5, {1, 2}}}), HasSubstr("no line 'file"));
}

TEST(BlockChecksums, AFileThatCannotBeReadIsNamed) {
  const TemporaryFolder folder;
  const std::vector<DatasetFile> files = {{".bin", folder.path() / "absent.bin.part"}};
  EXPECT_THAT(message_of<std::system_error>([&] { compute_block_checksums(files, 2); }),
              HasSubstr("absent.bin.part"));
}

// PREFIX.bin, .idx, .sources and .checksums of a few documents, one of them empty.
void write_whole_dataset(const std::filesystem::path& prefix) {
  write_dataset(prefix, TokenType::kUInt16,
                std::vector<std::vector<uint16_t>>{
                    {0, 1, 2}, {}, {3, 4}, std::vector<uint16_t>(40, uint16_t{5})});
  write_sources(sources_path(prefix), {{0, 0}, {0, 17}, {1, 0}, {1, 33}}, {"a", "b"});
  const std::vector<DatasetFile> files = {{".bin", prefix.string() + ".bin"},
                                          {".idx", prefix.string() + ".idx"},
                                          {".sources", sources_path(prefix)}};
  write_block_checksums(checksums_path(prefix), files, 1);
}

TEST(Verify, FindsEveryFlippedBit) {
  const TemporaryFolder folder(memory_folder());
  const auto prefix = folder.path() / "d";
  write_whole_dataset(prefix);
  EXPECT_TRUE(verify_dataset_files(prefix, 0, 2).checksum_problems.empty());
  uint32_t random = 12345;
  for (int round = 0; round < 1000; ++round) {
    random = random * 1664525 + 1013904223;
    const char* suffixes[] = {".bin", ".idx", ".sources", ".checksums"};
    const std::string suffix = suffixes[round % 4];
    const std::filesystem::path path = prefix.string() + suffix;
    const std::string sound = read_file(path);
    const size_t bit = (random >> 8) % (8 * sound.size());
    const char flipped = static_cast<char>(sound[bit / 8] ^ (1 << (bit % 8)));
    OutputFile(path, true).write_at(&flipped, 1, static_cast<int64_t>(bit / 8));
    const auto problems = verify_dataset_files(prefix, 0, 2).checksum_problems;
    ASSERT_EQ(problems.size(), 1u) << suffix << " bit " << bit;
    ASSERT_THAT(problems[0], HasSubstr("d" + suffix + ": "));
    OutputFile(path, true).write_at(&sound[bit / 8], 1, static_cast<int64_t>(bit / 8));
  }
  EXPECT_TRUE(verify_dataset_files(prefix, 0, 2).checksum_problems.empty());
}

TEST(Verify, NamesBlockBytesAndDocuments) {
  const TemporaryFolder folder;
  const auto prefix = folder.path() / "d";
  // Documents of 2^20 tokens of 2 bytes: 8 to a block.
  std::vector<std::vector<uint16_t>> documents;
  for (int i = 0; i < 9; ++i) {
    documents.emplace_back();
    documents.emplace_back(1 << 20, uint16_t{7});
  }
  write_dataset(prefix, TokenType::kUInt16, documents);
  const std::vector<DatasetFile> files = {{".bin", prefix.string() + ".bin"},
                                          {".idx", prefix.string() + ".idx"}};
  write_block_checksums(checksums_path(prefix), files, 1);
  OutputFile(files[0].path, true).write_at("x", 1, kChecksumBlockBytes);
  EXPECT_THAT(verify_dataset_files(prefix, 0, 1).checksum_problems,
              ElementsAre(HasSubstr("d.bin: block 1 (bytes 16777216 to 18874367) differs from its "
                                    "checksum; document 17 lies there")));
  OutputFile(files[0].path, true).write_at("x", 1, 5);
  EXPECT_THAT(verify_dataset_files(prefix, 0, 1).checksum_problems,
              ElementsAre(HasSubstr("block 0 (bytes 0 to 16777215) differs from its checksum; "
                                    "documents 1 to 15 lie there"),
                          HasSubstr("block 1")));
  // A damaged index is no guide to documents.
  OutputFile(files[1].path, true).write_at("x", 1, 40);
  EXPECT_THAT(verify_dataset_files(prefix, 0, 1).checksum_problems,
              ::testing::Contains(HasSubstr("block 0 (bytes 0 to 16777215) differs from its "
                                            "checksum; which documents lie there is not known")));
}

TEST(Verify, SaysWhatIsMissingOrOfAnotherSize) {
  const TemporaryFolder folder;
  const auto prefix = folder.path() / "d";
  write_whole_dataset(prefix);
  OutputFile(sources_path(prefix), true).truncate(100);
  EXPECT_THAT(
      verify_dataset_files(prefix, 0, 1).checksum_problems,
      ElementsAre(HasSubstr("d.sources: has 100 bytes; when the checksums were made it had ")));
  remove_file(sources_path(prefix));
  EXPECT_THAT(verify_dataset_files(prefix, 0, 1).checksum_problems,
              ElementsAre(HasSubstr("d.sources: is missing")));
  remove_file(checksums_path(prefix));
  const VerifyResult result = verify_dataset_files(prefix, 0, 1);
  EXPECT_FALSE(result.has_checksums);
  EXPECT_TRUE(result.checksum_problems.empty());
  EXPECT_TRUE(result.structure_problems.empty());
}

TEST(Verify, BadIdsAreThoseOfOneThreadForAnyNumber) {
  const TemporaryFolder folder;
  const auto prefix = folder.path() / "d";
  std::vector<uint16_t> tokens(3 << 20, 7);
  for (const size_t at : {9, 1000000, 2000000, 2000001, 2500000, 3000000, 3000001})
    tokens[at] = 600;
  write_dataset<uint16_t>(prefix, TokenType::kUInt16, {tokens});
  const auto problems = verify_dataset_files(prefix, 600, 1).structure_problems;
  EXPECT_THAT(problems,
              ElementsAre(HasSubstr("token id 600 at byte 18 is"), HasSubstr("byte 2000000 is"),
                          HasSubstr("byte 4000000 is"), HasSubstr("byte 4000002 is"),
                          HasSubstr("byte 5000000 is"), HasSubstr("and 2 more problems")));
  EXPECT_EQ(verify_dataset_files(prefix, 600, 4).structure_problems, problems);
}

}  // namespace
}  // namespace weft
