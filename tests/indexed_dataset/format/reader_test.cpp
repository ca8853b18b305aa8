#include "indexed_dataset/format/pair/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Documents 0..5; document 0, 2 and 5 are empty. Sequences 0..2, 7 tokens.
const std::vector<std::vector<uint16_t>> kDocuments = {{}, {1, 2, 3}, {}, {4, 50256}, {5, 6}, {}};
constexpr size_t kLengthsAt = 34, kOffsetsAt = kLengthsAt + 3 * 4, kBoundsAt = kOffsetsAt + 3 * 8;

// A sound dataset whose files a test damages.
class DamagedDataset {
 public:
  DamagedDataset() {
    write_dataset(prefix(), TokenType::kUInt16, kDocuments);
    idx = read_file(folder_ / "d.idx");
    bin = read_file(folder_ / "d.bin");
  }
  template <typename T>
  void set_idx(size_t at, T value) {
    std::memcpy(idx.data() + at, &value, sizeof(T));
  }
  std::filesystem::path prefix() const { return folder_ / "d"; }
  void save() const {
    write_file_atomically(folder_ / "d.idx", idx);
    write_file_atomically(folder_ / "d.bin", bin);
  }
  // Returns the error of the reader that opens the files, or "" if it accepts them.
  std::string open_error() const {
    save();
    try {
      const DatasetReader reader(prefix());
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }
  std::vector<std::string> problems(int64_t vocabulary_size = 0) const {
    save();
    return verify_dataset(prefix(), vocabulary_size);
  }

  std::string idx, bin;

 private:
  TemporaryFolder folder_;
};

TEST(Reader, ReadsWhatWasWritten) {
  const TemporaryFolder folder;
  write_dataset(folder / "d", TokenType::kUInt16, kDocuments);
  const DatasetReader reader(folder / "d");
  EXPECT_EQ(reader.token_type(), TokenType::kUInt16);
  EXPECT_EQ(reader.num_sequences(), 3);
  EXPECT_EQ(reader.num_documents(), 6);
  EXPECT_EQ(reader.num_tokens(), 7);
  EXPECT_THAT(reader.tokens(1), ElementsAre(4, 50256));
  EXPECT_EQ(reader.offset_bytes(2), 10);
  EXPECT_EQ(reader.lengths()[0], 3);
  int32_t tokens[2] = {};
  reader.copy_tokens(0, 1, 2, tokens);
  EXPECT_THAT(tokens, ElementsAre(2, 3));
}

TEST(Reader, WidensEveryTokenType) {
  const TemporaryFolder folder;
  const auto check = [&folder]<typename T>(TokenType type, const std::vector<T>& document) {
    write_dataset<T>(folder / "d", type, {document});
    EXPECT_THAT(DatasetReader(folder / "d").tokens(0),
                ::testing::ElementsAreArray(document.begin(), document.end()));
  };
  check(TokenType::kUInt8, std::vector<uint8_t>{0, 255});
  check(TokenType::kInt8, std::vector<int8_t>{-1, 127});
  check(TokenType::kInt16, std::vector<int16_t>{-1, 32767});
  check(TokenType::kUInt16, std::vector<uint16_t>{0, 65535});
  check(TokenType::kInt32, std::vector<int32_t>{0, 2147483647});
  check(TokenType::kInt64, std::vector<int64_t>{0, 2147483647});
}

TEST(Reader, RefusesIdsBeyond32Bits) {
  const TemporaryFolder folder;
  write_dataset<int64_t>(folder / "d", TokenType::kInt64, {{1, int64_t{1} << 31}});
  const DatasetReader reader(folder / "d");
  EXPECT_THROW(reader.tokens(0), std::runtime_error);
  EXPECT_THAT(verify_dataset(folder / "d"),
              ElementsAre(HasSubstr("token id 2147483648 at byte 8")));
}

TEST(Reader, ChecksPositions) {
  const DamagedDataset dataset;
  const DatasetReader reader(dataset.prefix());
  int32_t tokens[8];
  EXPECT_THROW(reader.copy_tokens(3, 0, 1, tokens), std::out_of_range);
  EXPECT_THROW(reader.copy_tokens(-1, 0, 1, tokens), std::out_of_range);
  EXPECT_THROW(reader.copy_tokens(0, 2, 2, tokens), std::out_of_range);
  EXPECT_THROW(reader.copy_tokens(0, -1, 2, tokens), std::out_of_range);
  EXPECT_THROW(reader.tokens(3), std::out_of_range);
  EXPECT_NO_THROW(reader.copy_tokens(0, 3, 0, tokens));
}

TEST(Reader, FindsTheDocumentOfASequenceAmongEmptyOnes) {
  const DamagedDataset dataset;
  const DatasetReader reader(dataset.prefix());
  EXPECT_EQ(reader.document_of_sequence(0), 1);
  EXPECT_EQ(reader.document_of_sequence(1), 3);
  EXPECT_EQ(reader.document_of_sequence(2), 4);
}

TEST(Reader, FindsTheDocumentOfASequenceInAnyDataset) {
  const TemporaryFolder folder;
  for (uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    const uint32_t most = 1 + seed % 3;  // sequences of a document
    std::vector<int32_t> document_sequences, sequence_lengths;
    std::vector<int64_t> expected;
    for (int32_t document = 0; document < 40; ++document) {
      const bool is_usual = random() % 4 != 0;
      document_sequences.push_back(is_usual ? 1 : static_cast<int32_t>(random() % (most + 1)));
      for (int32_t i = 0; i < document_sequences.back(); ++i) {
        sequence_lengths.push_back(1);
        expected.push_back(document);
      }
    }
    const std::vector<uint16_t> tokens(sequence_lengths.size());
    DatasetWriter writer(folder / "d", TokenType::kUInt16);
    writer.append_documents(std::as_bytes(std::span(tokens)), sequence_lengths, document_sequences);
    writer.finish();
    const DatasetReader reader(folder / "d");
    for (int64_t i = 0; i < std::ssize(expected); ++i)
      EXPECT_EQ(reader.document_of_sequence(i), expected[static_cast<size_t>(i)])
          << "seed " << seed << ", sequence " << i;
  }
}

TEST(Reader, AcceptsFilesWithoutDocumentBounds) {
  DamagedDataset dataset;
  dataset.idx.resize(kBoundsAt + 8);
  dataset.set_idx<uint64_t>(26, 1);
  EXPECT_EQ(dataset.open_error(), "");
  EXPECT_THAT(dataset.problems(), IsEmpty());
  const DatasetReader reader(dataset.prefix());
  EXPECT_EQ(reader.num_documents(), 0);
  EXPECT_EQ(reader.document_of_sequence(2), 2);
}

TEST(Reader, SaysHowToNameADataset) {
  const DamagedDataset dataset;
  try {
    const DatasetReader reader(dataset.prefix().string() + ".idx");
    ADD_FAILURE() << "opened";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("give the prefix without .idx"));
  }
}

TEST(Reader, RejectsAnIndexTruncatedAnywhere) {
  const DamagedDataset sound;
  for (size_t size_bytes = 0; size_bytes < sound.idx.size(); ++size_bytes) {
    DamagedDataset dataset;
    dataset.idx.resize(size_bytes);
    EXPECT_THAT(dataset.open_error(), HasSubstr("d.idx: ")) << size_bytes << " bytes";
    EXPECT_THAT(dataset.problems(), ElementsAre(HasSubstr("d.idx: "))) << size_bytes << " bytes";
  }
}

struct Damage {
  const char* name;
  std::function<void(DamagedDataset&)> apply;
  const char* message;       // of opening; "": is not seen when opening
  const char* verify_finds;  // by verify_dataset
};

class ReaderRejects : public ::testing::TestWithParam<Damage> {};

TEST_P(ReaderRejects, WithAMessageThatSaysWhatAndWhere) {
  DamagedDataset dataset;
  GetParam().apply(dataset);
  const std::string error = dataset.open_error();
  if (*GetParam().message == '\0') {
    EXPECT_EQ(error, "");
  } else {
    EXPECT_THAT(error, HasSubstr(GetParam().message));
  }
  EXPECT_THAT(dataset.problems(50257), ::testing::Contains(HasSubstr(GetParam().verify_finds)));
}

INSTANTIATE_TEST_SUITE_P(
    Damages, ReaderRejects,
    ::testing::Values(
        Damage{"Magic", [](auto& d) { d.idx[3] = 'X'; }, "not a Megatron index",
               "not a Megatron index"},
        Damage{"FairseqFormat", [](auto& d) { d.idx.replace(0, 8, "TNTIDX\0\0", 8); },
               "older fairseq format", "older fairseq format"},
        Damage{"Version", [](auto& d) { d.idx[9] = 2; }, "version 2 at byte 9", "version 2"},
        Damage{"UnknownTokenType", [](auto& d) { d.idx[17] = 9; },
               "token type code 9 at byte 17 is unknown", "code 9"},
        Damage{"FloatTokenType", [](auto& d) { d.idx[17] = 7; }, "floating-point", "code 7"},
        Damage{"OtherTokenType", [](auto& d) { d.idx[17] = 4; },
               "by the .idx its last sequence has 8 bytes from byte 10 on",
               "sequence 1 starts at byte 6, but the lengths before it make 12"},
        Damage{"SequenceCount", [](auto& d) { d.idx[18] = 4; }, "too few for 4 sequences",
               "too few for 4 sequences"},
        Damage{"HugeSequenceCount",
               [](auto& d) { d.template set_idx<uint64_t>(18, (uint64_t{1} << 62) + 3); },
               "too few for 4611686018427387907 sequences", "too few for"},
        Damage{"BoundCount", [](auto& d) { d.idx[26] = 6; }, "has 8 bytes more than",
               "has 8 bytes more than"},
        Damage{"HugeBoundCount",
               [](auto& d) { d.template set_idx<uint64_t>(26, (uint64_t{1} << 61) + 7); },
               "too few for", "too few for"},
        Damage{"NoBounds",
               [](auto& d) {
                 d.template set_idx<uint64_t>(26, 0);
                 d.idx.resize(kBoundsAt);
               },
               "has no document bounds", "has no document bounds"},
        Damage{"Multimodal", [](auto& d) { d.idx += std::string(3, '\0'); }, "multimodal",
               "multimodal"},
        Damage{"ShortData", [](auto& d) { d.bin.pop_back(); },
               "d.bin: has 13 bytes, but by the .idx its last sequence has 4 bytes from byte 10",
               "d.bin: has 13 bytes"},
        Damage{"LongData", [](auto& d) { d.bin += '\0'; }, "d.bin: has 15 bytes",
               "d.bin: has 15 bytes"},
        Damage{"LastLength", [](auto& d) { d.template set_idx<int32_t>(kLengthsAt + 8, 3); },
               "has 6 bytes from byte 10 on", "the lengths in the .idx make 16"},
        Damage{"MiddleLength", [](auto& d) { d.template set_idx<int32_t>(kLengthsAt + 4, 3); }, "",
               "sequence 2 starts at byte 10, but the lengths before it make 12"},
        Damage{"NegativeLength", [](auto& d) { d.template set_idx<int32_t>(kLengthsAt, -3); }, "",
               "length of sequence 0 is -3"},
        Damage{"Offset", [](auto& d) { d.template set_idx<int64_t>(kOffsetsAt + 8, 4); }, "",
               "sequence 1 starts at byte 4, but the lengths before it make 6"},
        Damage{"FirstBound", [](auto& d) { d.template set_idx<int64_t>(kBoundsAt, -1); },
               "d.idx: its document bounds go from -1 to 3 and must go from 0 to the number of "
               "sequences, 3",
               "document bound 0 is -1, not 0"},
        Damage{"BoundOrder", [](auto& d) { d.template set_idx<int64_t>(kBoundsAt + 16, 3); }, "",
               "document bound 3 is 1, less than the one before it (3)"},
        Damage{"LastBound", [](auto& d) { d.template set_idx<int64_t>(kBoundsAt + 48, 9); },
               "d.idx: its document bounds go from 0 to 9 and must go from 0 to the number of "
               "sequences, 3",
               "the last document bound (6) is 9, but there are 3 sequences"},
        Damage{"TokenId", [](auto& d) { d.bin[8] = 0x51; }, "",
               "d.bin: token id 50257 at byte 8 is not in [0, 50257)"}),
    [](const auto& test) { return test.param.name; });

TEST(Reader, DoesNotReadOutsideOfTheDataWhenTheIndexIsDamaged) {
  DamagedDataset dataset;
  dataset.set_idx<int64_t>(kOffsetsAt + 8, 1000);
  dataset.set_idx<int32_t>(kLengthsAt, -3);
  dataset.save();
  const DatasetReader reader(dataset.prefix());
  EXPECT_THROW(reader.tokens(1), std::runtime_error);
  EXPECT_THROW(reader.tokens(0), std::out_of_range);
}

// An offset or a length in the middle that lies within the .bin, but not where the others say.
TEST(Reader, RefusesASequenceThatDoesNotEndWhereTheNextBegins) {
  const auto error_of = [](const DatasetReader& reader, int64_t sequence_idx) -> std::string {
    try {
      reader.tokens(sequence_idx);
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  };
  DamagedDataset dataset;
  dataset.set_idx<int64_t>(kOffsetsAt + 8, 4);
  dataset.save();
  const DatasetReader wrong_offset(dataset.prefix());
  EXPECT_THAT(error_of(wrong_offset, 0),
              HasSubstr("d.idx: sequence 0 has 3 tokens, but begins at byte 0 of the .bin and ends "
                        "at byte 4"));
  EXPECT_THAT(error_of(wrong_offset, 1),
              HasSubstr("sequence 1 has 2 tokens, but begins at byte 4"));
  EXPECT_EQ(error_of(wrong_offset, 2), "");
  EXPECT_EQ(wrong_offset.lengths().first_misfit(0, 3), 0);
  EXPECT_EQ(wrong_offset.lengths().first_misfit(1, 3), 1);
  EXPECT_EQ(wrong_offset.lengths().first_misfit(2, 3), 3);

  DamagedDataset other;
  other.set_idx<int32_t>(kLengthsAt + 4, 1);
  other.save();
  EXPECT_THAT(error_of(DatasetReader(other.prefix()), 1), HasSubstr("sequence 1 has 1 tokens"));
}

// Everything that a program reads of a dataset; throws nothing but what the headers name.
void read_everything(const DamagedDataset& dataset) {
  try {
    const DatasetReader reader(dataset.prefix());
    for (int64_t i = 0; i < reader.num_sequences(); ++i) {
      reader.document_of_sequence(i);
      try {
        reader.tokens(i);
      } catch (const std::out_of_range&) {
      }
    }
  } catch (const std::runtime_error&) {
  }
}

TEST(Reader, NoFlippedBitOfTheIndexDoesHarm) {
  const DamagedDataset sound;
  for (size_t at = 0; at < sound.idx.size(); ++at) {
    for (const char flip : {'\x01', '\x80', '\xff'}) {
      DamagedDataset dataset;
      dataset.idx[at] = static_cast<char>(dataset.idx[at] ^ flip);
      const auto problems = dataset.problems();
      // A moved bound between two documents can be just as good a bound; all else contradicts
      // something.
      EXPECT_TRUE(at >= kBoundsAt || !problems.empty()) << "byte " << at;
      read_everything(dataset);
    }
  }
}

TEST(Verify, ShowsTheFirstProblemsOfAKindAndCountsTheOthers) {
  DamagedDataset dataset;
  EXPECT_THAT(dataset.problems(), IsEmpty());
  EXPECT_THAT(dataset.problems(50257), IsEmpty());
  const auto problems = dataset.problems(1);
  ASSERT_EQ(problems.size(), 6u);
  EXPECT_THAT(problems.back(), HasSubstr("and 2 more problems of this kind"));
}

}  // namespace
}  // namespace weft
