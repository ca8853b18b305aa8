
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

#include "indexed_dataset/format/pair/reader.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
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
  const int32_t three = 3, one = 1;
  EXPECT_THROW(writer.append_documents(std::as_bytes(std::span(tokens)), {&three, 1}),
               std::logic_error);
  EXPECT_THROW(writer.append_documents({}, {}, {&one, 1}), std::logic_error);
}

}  // namespace
}  // namespace weft
