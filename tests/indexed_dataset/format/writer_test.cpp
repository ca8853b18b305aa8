#include "indexed_dataset/format/pair/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <random>
#include <system_error>

#include "indexed_dataset/format/pair/reader.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

const std::vector<std::vector<uint16_t>> kThreeDocuments = {{1, 2, 3}, {}, {4, 50256}};

TEST(Writer, WritesTheBytesOfMegatronCore) {
  const TemporaryFolder folder;
  write_dataset(folder / "d", TokenType::kUInt16, kThreeDocuments);
  EXPECT_EQ(to_hex(read_file(folder / "d.bin")), "010002000300040050c4");
  EXPECT_EQ(to_hex(read_file(folder / "d.idx")),
            "4d4d49444944580000"
            "0100000000000000"
            "08"
            "0200000000000000"
            "0400000000000000"
            "0300000002000000"
            "00000000000000000600000000000000"
            "0000000000000000010000000000000001000000000000000200000000000000");
  EXPECT_THAT(folder.file_names(), UnorderedElementsAre("d.bin", "d.idx"));
}

TEST(Writer, OutputDoesNotDependOnHowDocumentsArriveInBatches) {
  std::mt19937 random(7);
  std::vector<uint16_t> tokens;
  std::vector<int32_t> lengths;
  for (int i = 0; i < 20000; ++i) {
    lengths.push_back(static_cast<int32_t>(random() % 200));
    for (int k = 0; k < lengths.back(); ++k) tokens.push_back(static_cast<uint16_t>(random()));
  }
  const TemporaryFolder folder;
  DatasetWriter whole(folder / "whole", TokenType::kUInt16);
  whole.append_documents(std::as_bytes(std::span(tokens)), lengths);
  whole.finish();
  DatasetWriter single(folder / "single", TokenType::kUInt16);
  size_t begin = 0;
  for (const int32_t& length : lengths) {
    const auto document = std::span(tokens).subspan(begin, static_cast<size_t>(length));
    single.append_documents(std::as_bytes(document), {&length, 1});
    begin += static_cast<size_t>(length);
  }
  single.finish();
  EXPECT_EQ(single.num_documents(), 20000);
  EXPECT_EQ(single.num_tokens(), static_cast<int64_t>(tokens.size()));
  EXPECT_TRUE(read_file(folder / "whole.idx") == read_file(folder / "single.idx"));
  EXPECT_TRUE(read_file(folder / "whole.bin") == read_file(folder / "single.bin"));
  EXPECT_THAT(verify_dataset(folder / "whole"), IsEmpty());
}

TEST(Writer, WritesDocumentsOfSeveralSequences) {
  const TemporaryFolder folder;
  DatasetWriter writer(folder / "d", TokenType::kUInt16);
  const std::vector<uint16_t> tokens = {1, 2, 3, 4, 5, 6};
  const std::vector<int32_t> lengths = {1, 2, 3}, sequences = {2, 0, 1};
  writer.append_documents(std::as_bytes(std::span(tokens)), lengths, sequences);
  writer.finish();
  const DatasetReader reader(folder / "d");
  EXPECT_EQ(reader.num_documents(), 3);
  EXPECT_THAT((std::vector{reader.document_bound(0), reader.document_bound(1),
                           reader.document_bound(2), reader.document_bound(3)}),
              ElementsAre(0, 2, 2, 3));
  EXPECT_THAT(reader.tokens(1), ElementsAre(2, 3));
  EXPECT_THAT(reader.tokens(2), ElementsAre(4, 5, 6));
  EXPECT_THAT(verify_dataset(folder / "d"), IsEmpty());
}

TEST(Writer, WritesAnEmptyDataset) {
  const TemporaryFolder folder;
  write_dataset<uint16_t>(folder / "d", TokenType::kUInt16, {});
  EXPECT_EQ(std::filesystem::file_size(folder / "d.idx"), 42u);
  EXPECT_EQ(DatasetReader(folder / "d").num_tokens(), 0);
  EXPECT_THAT(verify_dataset(folder / "d"), IsEmpty());
}

TEST(Writer, RefusesTokensThatDoNotFitTheLengths) {
  const TemporaryFolder folder;
  DatasetWriter writer(folder / "d", TokenType::kInt32);
  const std::vector<uint16_t> tokens = {1, 2, 3};
  const int32_t length = 3;
  EXPECT_THROW(writer.append_documents(std::as_bytes(std::span(tokens)), {&length, 1}),
               std::logic_error);
  const int32_t negative = -1;
  EXPECT_THROW(writer.append_documents({}, {&negative, 1}), std::logic_error);
  const int32_t zero = 0, one = 1;
  EXPECT_THROW(writer.append_documents({}, {&zero, 1}, {&one, 1}), std::logic_error);
  EXPECT_THROW(writer.append_documents({}, {}, {&one, 1}), std::logic_error);
  EXPECT_THROW(writer.append_documents({}, {}, {&negative, 1}), std::logic_error);
}

TEST(Writer, WithoutFinishLeavesNothing) {
  const TemporaryFolder folder;
  {
    DatasetWriter writer(folder / "d", TokenType::kUInt16);
    append<uint16_t>(writer, {1, 2});
  }
  EXPECT_THAT(folder.file_names(), IsEmpty());
}

// Whichever call fails: what has an .idx is a whole dataset, the old or the new one, and no .part
// file stays.
TEST(Writer, LeavesNoCompleteLookingOutputWhicheverCallFails) {
  for (const bool replaces : {false, true}) {
    int num_failures = 0;
    for (bool failed = true; failed;) {
      const TemporaryFolder folder;
      if (replaces) write_dataset<uint16_t>(folder / "d", TokenType::kUInt16, {{9, 9}});
      set_io_fault(num_failures + 1, ENOSPC);
      try {
        write_dataset(folder / "d", TokenType::kUInt16, kThreeDocuments);
        failed = false;
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code().value(), ENOSPC);
        ++num_failures;
      }
      set_io_fault(0, 0);
      for (const std::string& name : folder.file_names()) {
        EXPECT_THAT(name, ::testing::AnyOf("d.bin", "d.idx")) << "call " << num_failures;
      }
      if (std::filesystem::exists(folder / "d.idx")) {
        EXPECT_THAT(verify_dataset(folder / "d"), IsEmpty()) << "call " << num_failures;
      }
    }
    // 3 removals, 3 opens, 7 writes, 2 truncations, 2 x 3 to read back, 3 syncs, 1 removal (+ 2),
    // 2 x 3 to rename: the first run without failure comes after all of them.
    EXPECT_GE(num_failures, replaces ? 33 : 31);
  }
}

TEST(Writer, KilledLeavesOnlyPartFiles) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    DatasetWriter writer(folder / "d", TokenType::kUInt16);
    for (int i = 0; i < 1000; ++i) append<uint16_t>(writer, std::vector<uint16_t>(2000, 7));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(folder.file_names(),
              UnorderedElementsAre("d.bin.part", "d.idx.part", "d.idx.bounds.part"));
  try {
    const DatasetReader reader(folder / "d");
    ADD_FAILURE() << "opened an unfinished dataset";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("no dataset file"));
  }
  write_dataset(folder / "d", TokenType::kUInt16, kThreeDocuments);  // a new run just starts over
  EXPECT_THAT(folder.file_names(), UnorderedElementsAre("d.bin", "d.idx"));
}

}  // namespace
}  // namespace weft
