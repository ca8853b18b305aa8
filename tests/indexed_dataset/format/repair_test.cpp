// A lost or damaged .idx: what can be made again, what cannot, and what is never touched.
#include "indexed_dataset/format/repair/repair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <new>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/repair/rebuild_index.h"
#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "tests/indexed_dataset/dataset_writer.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

constexpr uint16_t kEod = 300;

// As RLIMIT_DATA counts it.
rlim_t private_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmData:")) return std::stoull(line.substr(7)) << 10;
  }
  return 0;
}

// A dataset with everything beside it; empty documents have lines of 11 bytes, others longer ones.
class RepairTest : public ::testing::Test {
 protected:
  void write(const std::vector<std::vector<uint16_t>>& documents, bool with_eod = true) {
    DatasetWriter writer(prefix_, TokenType::kUInt16);
    std::vector<std::byte> entries;
    int64_t line_at = 0, num_tokens = 0;
    for (std::vector<uint16_t> tokens : documents) {
      append_source_entry(entries, {0, line_at});
      line_at += 11 + std::ssize(tokens);
      if (with_eod && !tokens.empty()) tokens.push_back(kEod);
      num_tokens += std::ssize(tokens);
      const auto length = static_cast<int32_t>(tokens.size());
      writer.append_documents(std::as_bytes(std::span(tokens)), std::span(&length, 1));
    }
    writer.finish();
    OutputFile(sources_path(prefix_)).write_at(entries.data(), entries.size(), source_entry_at(0));
    seal_source_map(sources_path(prefix_), std::ssize(documents), {"corpus.jsonl"});
    write_file_atomically(
        dataset_manifest_path(prefix_), R"({"options": {"append-eod": ")" +
                                            std::string(with_eod ? "true" : "false") +
                                            R"("}, "vocabulary": {"size": 301,
        "end_of_document": )" + std::string(with_eod ? "300" : "null") +
                                            R"(}, "dataset": {"documents": )" +
                                            std::to_string(documents.size()) + R"(, "tokens": )" +
                                            std::to_string(num_tokens) + "}}");
    const std::vector<DatasetFile> files = {
        {".bin", prefix_.string() + ".bin"}, {".idx", idx()}, {".sources", sources_path(prefix_)}};
    write_block_checksums(checksums_path(prefix_), files, 1);
    sound_ = read_file(idx());
  }
  fs::path idx() const { return prefix_.string() + ".idx"; }
  // Puts these bytes in the place of the .idx; what an earlier repair has kept is gone.
  void damage(const std::string& bytes) {
    remove_file(idx().string() + ".damaged");
    write_file_atomically(idx(), bytes);
  }
  RepairReport repair(std::optional<int64_t> eod = {}, std::optional<int64_t> token_bytes = {}) {
    return repair_dataset({prefix_, eod, token_bytes, 2});
  }
  std::string refusal() {
    try {
      repair();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "(nothing was thrown)";
  }

  const TemporaryFolder folder_{memory_folder()};
  const fs::path prefix_ = folder_.path() / "d";
  std::string sound_;
};

TEST_F(RepairTest, ALostIndexIsMadeFromEndsOfDocuments) {
  write({{1, 2, 3}, {4}, {5, 6}});
  remove_file(idx());
  const RepairReport report = repair();
  EXPECT_EQ(read_file(idx()), sound_);
  EXPECT_TRUE(report.is_proven);
  EXPECT_THAT(report.how, HasSubstr("3 end-of-document tokens (300)"));
  EXPECT_THAT(report.other_problems, IsEmpty());
  EXPECT_TRUE(repair().was_sound);
}

// Nothing in .bin says where they stand.
TEST_F(RepairTest, EmptyDocumentsAreNotGuessed) {
  write({{}, {1, 2, 3}, {}, {4}, {5, 6}});
  remove_file(idx());
  EXPECT_THAT(refusal(), HasSubstr("where the empty documents stand cannot be told"));
  EXPECT_FALSE(fs::exists(idx()));
}

// An .idx whose bounds leave out sequences is damaged: its documents are those that a token ends.
TEST_F(RepairTest, BoundsThatDoNotCoverTheSequencesAreMadeAnew) {
  write({{1, 2, 3}, {4}, {5, 6}, {7}});
  remove_file(checksums_path(prefix_));
  std::string bounds = sound_;
  bounds[26] = 3;  // 0, 1, 2 of 0, 1, 2, 3, 4
  bounds.resize(bounds.size() - 16);
  damage(bounds);
  EXPECT_FALSE(repair().was_sound);
  EXPECT_EQ(read_file(idx()), sound_);
  write({{1, 2, 3}, {4}, {5, 6}, {7}}, /*with_eod=*/false);
  remove_file(checksums_path(prefix_));
  bounds = sound_;
  bounds[26] = 3;
  bounds.resize(bounds.size() - 16);
  damage(bounds);
  EXPECT_THAT(refusal(), HasSubstr("made without --append-eod"));
  EXPECT_EQ(read_file(idx()), bounds);
}

TEST_F(RepairTest, WithoutChecksumsTheCountsMustFit) {
  write({{1, 2, 3}, {4}, {5, 6}});
  remove_file(idx());
  remove_file(checksums_path(prefix_));
  EXPECT_FALSE(repair().is_proven);
  EXPECT_EQ(read_file(idx()), sound_);
  write({{1, kEod, 3}, {4}});  // the token stands within a text, too
  remove_file(idx());
  EXPECT_THAT(refusal(), HasSubstr("3 documents by token 300, the manifest or .sources says 2"));
}

TEST_F(RepairTest, WithoutManifestTheTokenIsTold) {
  write({{1, 2, 3}, {4}});
  remove_file(idx());
  remove_file(dataset_manifest_path(prefix_));
  EXPECT_THAT(refusal(), HasSubstr("give --token-bytes and --eod-id"));
  EXPECT_TRUE(repair(kEod, 2).is_proven);
  EXPECT_EQ(read_file(idx()), sound_);
}

TEST_F(RepairTest, WithoutManifestTheSourcesCountTheDocuments) {
  write({{1, 2, 3}, {}, {4}, {5, 6, 7, 8}});
  for (const fs::path& file : {checksums_path(prefix_), dataset_manifest_path(prefix_)})
    remove_file(file);
  damage(sound_.substr(0, 40));
  try {
    repair(kEod, 2);
    FAIL() << "made an index of " << read_file(idx()).size() << " bytes";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("3 documents by token 300, the manifest or .sources says 4"));
  }
  EXPECT_EQ(read_file(idx()), sound_.substr(0, 40));
}

TEST_F(RepairTest, WhatAnEarlierRepairHasKeptIsNotReplaced) {
  write({{1, 2, 3}, {4}});
  damage(sound_.substr(0, 40));
  write_file_atomically(idx().string() + ".damaged", "the first one");
  EXPECT_THROW(repair(), std::invalid_argument);
  EXPECT_EQ(read_file(idx().string() + ".damaged"), "the first one");
  EXPECT_EQ(read_file(idx()), sound_.substr(0, 40));
}

TEST_F(RepairTest, SaysWhatCannotBeMadeAgain) {
  write({{1, 2, 3}, {4}}, /*with_eod=*/false);
  remove_file(idx());
  EXPECT_THAT(refusal(), HasSubstr("made without --append-eod"));
  EXPECT_FALSE(fs::exists(idx()));
  write({{1, 2, 3}, {4}});
  remove_file(idx());
  OutputFile(prefix_.string() + ".bin", true).truncate(8);
  EXPECT_THAT(refusal(), HasSubstr("do not fit the 6 tokens"));
  remove_file(prefix_.string() + ".bin");
  EXPECT_THAT(refusal(), HasSubstr("tokens cannot be made again"));
}

TEST_F(RepairTest, ASoundIndexIsNotTouched) {
  write({{1, 2, 3}, {}, {4}});
  OutputFile(prefix_.string() + ".bin", true).write_at("\x07", 1, 0);
  const auto before = fs::last_write_time(idx());
  const RepairReport report = repair();
  EXPECT_TRUE(report.was_sound);
  EXPECT_THAT(report.other_problems, ElementsAre(HasSubstr("d.bin: block 0")));
  EXPECT_EQ(fs::last_write_time(idx()), before);
  // Even where .bin is cut off, and the two contradict each other.
  OutputFile(prefix_.string() + ".bin", true).truncate(4);
  EXPECT_TRUE(repair().was_sound);
  EXPECT_EQ(read_file(idx()), sound_);
}

TEST_F(RepairTest, EveryFlippedBitOfAnIndexIsMended) {
  write({{1, 2, 3}, {4}, {5, 6, 7, 8}, {9}});
  for (size_t bit = 0; bit < 8 * sound_.size(); bit += 3) {
    std::string damaged = sound_;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    damage(damaged);
    const RepairReport report = repair();
    ASSERT_TRUE(report.is_proven) << bit;
    ASSERT_EQ(read_file(idx()), sound_) << bit;
    ASSERT_EQ(read_file(idx().string() + ".damaged"), damaged);
  }
}

// Tokens of 2 bytes read as ones of 4 made an .idx that the next repair called sound.
TEST_F(RepairTest, AWrongSizeOfTokensIsRefused) {
  write({{1, 2, 3, 4, 5, 1000}, {4, 2}, {9, 2, 1}});
  for (const fs::path& file :
       {fs::path(idx()), checksums_path(prefix_), dataset_manifest_path(prefix_)}) {
    remove_file(file);
  }
  EXPECT_THROW(repair(kEod, 4), std::runtime_error);
  EXPECT_THROW(repair(std::nullopt, 2), std::runtime_error);
  EXPECT_FALSE(fs::exists(idx()));
  EXPECT_FALSE(repair(kEod, 2).was_sound);
  EXPECT_EQ(read_file(idx()), sound_);
}

// It took 16 bytes of memory for each document.
TEST_F(RepairTest, MemoryDoesNotGrowWithDocuments) {
  constexpr int64_t kDocuments = 1'500'000;
  const std::vector<uint16_t> two = {1, kEod};
  {
    DatasetWriter writer(prefix_, TokenType::kUInt16);
    std::vector<std::byte> entries;
    for (int64_t i = 0; i < kDocuments; ++i) {
      append_source_entry(entries, {0, 100 * i});
      const int32_t length = 2;
      writer.append_documents(std::as_bytes(std::span(two)), std::span(&length, 1));
    }
    writer.finish();
    OutputFile(sources_path(prefix_)).write_at(entries.data(), entries.size(), source_entry_at(0));
  }
  seal_source_map(sources_path(prefix_), kDocuments, {"corpus.jsonl"});
  const std::vector<DatasetFile> files = {{".idx", idx()}};
  write_block_checksums(checksums_path(prefix_), files, 1);
  write_file_atomically(dataset_manifest_path(prefix_), R"({"options": {"append-eod": "true"},
      "vocabulary": {"size": 301, "end_of_document": 300},
      "dataset": {"documents": 1500000, "tokens": 3000000}})");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  for (const bool is_lost : {true, false}) {
    if (is_lost) {
      remove_file(idx());
    } else {
      OutputFile(idx(), /*keep=*/true).write_at("xxxxxxxx", 8, 34);
    }
    const pid_t child = ::fork();
    if (child == 0) {
      ::malloc_trim(0);
      // Private memory; what is mapped of files does not count.
      const rlimit limit{private_bytes() + (20 << 20), RLIM_INFINITY};
      ::setrlimit(RLIMIT_DATA, &limit);
      try {
        ::_exit(repair().is_proven ? 0 : 1);
      } catch (const std::bad_alloc&) {
        ::_exit(9);
      } catch (...) {
        ::_exit(2);
      }
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0) << is_lost;
  }
}

TEST(RebuildIndex, EndsOfDocumentsDoNotDependOnThreadsOrBlocks) {
  const TemporaryFolder folder;
  std::vector<int32_t> tokens(600000, 1);  // 2.4 MB: three blocks
  for (const size_t end : {0, 1, 262143, 262144, 524288, 599999}) tokens[end] = 70000;
  write_file_atomically(folder.path() / "b",
                        {reinterpret_cast<const char*>(tokens.data()), 4 * tokens.size()});
  const auto rebuild = [&](int64_t end, int threads) {
    OutputFile idx(folder.path() / "idx");
    return rebuild_index(folder.path() / "b", TokenType::kInt32, end, threads, idx);
  };
  for (const int threads : {1, 3}) {
    EXPECT_EQ(rebuild(70000, threads), 6);
    const std::string idx = read_file(folder.path() / "idx");
    std::vector<int32_t> lengths(6);
    std::memcpy(lengths.data(), idx.data() + 34, 24);
    EXPECT_THAT(lengths, ElementsAre(1, 1, 262142, 1, 262144, 75711));
  }
  EXPECT_EQ(rebuild(5, 1), std::nullopt);
}

}  // namespace
}  // namespace weft
