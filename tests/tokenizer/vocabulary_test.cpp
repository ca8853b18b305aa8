#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/tokenizer/golden.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/formats/load_gpt2.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

// A vocabulary of 256 bytes, "ab", "abc" and <|endoftext|> that a test can damage.
class VocabularyFilesTest : public testing::Test {
 protected:
  VocabularyFilesTest() {
    for (int b = 0; b < 256; ++b) entries_[to_printable(std::string(1, static_cast<char>(b)))] = b;
    entries_["ab"] = 256;
    entries_["abc"] = 257;
    entries_["<|endoftext|>"] = 258;
  }

  std::shared_ptr<const Vocabulary> load() {
    const std::string vocab_json =
        vocab_text_.empty() ? nlohmann::json(entries_).dump() : vocab_text_;
    return load_gpt2({"vocab.json", vocab_json}, {"merges.txt", merges_});
  }
  // Both parts must be in the message.
  void expect_error(const std::string& where, const std::string& why) {
    EXPECT_THAT([this] { load(); },
                ThrowsMessage<std::runtime_error>(AllOf(HasSubstr(where), HasSubstr(why))));
  }

  std::map<std::string, int> entries_;
  std::string vocab_text_;
  std::string merges_ = "#version: 0.2\na b\nab c\n";
};

TEST_F(VocabularyFilesTest, LoadsAWellFormedVocabulary) {
  const auto vocabulary = load();
  EXPECT_EQ(vocabulary->size(), 259);
  EXPECT_EQ(vocabulary->end_of_document(), 258);
  EXPECT_EQ(vocabulary->bytes(257), "abc");
  EXPECT_THAT(vocabulary->special_tokens(), testing::ElementsAre(258));
  EXPECT_EQ(vocabulary->num_unreachable(), 0);
  ASSERT_EQ(vocabulary->merges().size(), 2u);
  EXPECT_EQ(vocabulary->merges()[1].left, 256);
  EXPECT_EQ(vocabulary->merges()[1].right, 'c');
  EXPECT_EQ(vocabulary->merges()[1].result, 257);
  EXPECT_THROW(vocabulary->bytes(259), std::out_of_range);
  EXPECT_THROW(vocabulary->bytes(-1), std::out_of_range);
}

TEST_F(VocabularyFilesTest, AcceptsCrlfAndNoVersionLine) {
  merges_ = "a b\r\nab c\r\n";
  EXPECT_EQ(load()->merges().size(), 2u);
}

TEST_F(VocabularyFilesTest, TellsWhenAnEntryDoesNotEncodeToItself) {
  entries_["bc"] = 259;
  merges_ = "a b\nb c\na bc\n";  // "abc" becomes "ab" and "c", which nothing joins
  const auto vocabulary = load();
  EXPECT_EQ(vocabulary->num_unreachable(), 1);
  EXPECT_FALSE(vocabulary->is_reachable(257));
  EXPECT_EQ(vocabulary->merges().size(), 2u);  // the third is never applied
}

TEST_F(VocabularyFilesTest, NeedsNoEndOfTextUntilAskedForIt) {
  entries_.erase("<|endoftext|>");
  const auto vocabulary = load();
  EXPECT_THAT(
      [&] { vocabulary->end_of_document(); },
      ThrowsMessage<std::runtime_error>(HasSubstr("none of the known tokens that end documents")));
}

TEST_F(VocabularyFilesTest, RejectsWhatIsNotAJsonObject) {
  vocab_text_ = "{\"a\": 1";
  expect_error("vocab.json", "not JSON");
  vocab_text_ = "[1, 2]";
  expect_error("vocab.json", "not a vocabulary");
}

TEST_F(VocabularyFilesTest, RejectsIdsWithGapsOrTwice) {
  entries_["abc"] = 300;
  expect_error("vocab.json", "has id 300");
  entries_["abc"] = -1;
  expect_error("vocab.json", "has id -1");
  entries_["abc"] = 256;
  expect_error("vocab.json", "id 256 is used twice");
  vocab_text_ = "{\"a\": \"b\"}";
  expect_error("vocab.json", "not an integer");
}

TEST_F(VocabularyFilesTest, RejectsAMissingByte) {
  entries_.erase("z");
  entries_["zz"] = 'z';
  expect_error("vocab.json", "no entry for byte 122");
}

TEST_F(VocabularyFilesTest, RejectsCharactersThatStandForNoByte) {
  entries_.erase("abc");
  entries_["a c"] = 257;  // a space is written U+0120
  expect_error("vocab.json", "printable alphabet");
  entries_.erase("a c");
  entries_["\u4E2D"] = 257;
  expect_error("vocab.json", "printable alphabet");
}

TEST_F(VocabularyFilesTest, RejectsMergesOfOtherVocabularies) {
  merges_ = "#version: 0.2\na b\nb c\n";
  expect_error("merges.txt:3", "the two joined is no entry");
  merges_ = "#version: 0.2\na bd\n";
  expect_error("merges.txt:2", "bd is no entry");
}

// A copy that failed leaves a file that is empty or ends early, often at the end of a line.
TEST_F(VocabularyFilesTest, RejectsMergesThatAreEmptyOrCutOff) {
  merges_ = "";
  expect_error("merges.txt", "has 0 merges, and none makes the entry 'ab' (id 256) or 1 others");
  merges_ = "#version: 0.2\na b\n";
  expect_error("merges.txt", "has 1 merges, and none makes the entry 'abc' (id 257) of");
}

TEST_F(VocabularyFilesTest, NeedsNoMergesForSpecialTokens) {
  entries_["<pad>"] = 259;
  entries_["[MASK]"] = 260;
  const auto vocabulary = load();
  EXPECT_EQ(vocabulary->size(), 261);
  EXPECT_THAT(vocabulary->special_tokens(), testing::ElementsAre(258, 259, 260));
  EXPECT_EQ(vocabulary->num_unreachable(), 0);
  Tokenizer tokenizer(vocabulary);
  EXPECT_THAT(test::encode(tokenizer, "<pad>abc"),
              testing::ElementsAre('<', 'p', 'a', 'd', '>', 257));
  entries_["<>"] = 261;
  expect_error("merges.txt", "none makes the entry '<>' (id 261)");
}

TEST_F(VocabularyFilesTest, RejectsMalformedMerges) {
  merges_ = "#version: 0.2\nab\n";
  expect_error("merges.txt:2", "'ab' is not a merge");
  merges_ = "#version: 0.2\na b c\n";
  expect_error("merges.txt:2", "is not a merge");
  merges_ = "#version: 0.2\na b\n\nab c\n";
  expect_error("merges.txt:3", "is not a merge");
  merges_ = "#version: 0.2\na b\na b\n";
  expect_error("merges.txt:3", "twice");
}

TEST(ByteAlphabet, IsGpt2s) {
  EXPECT_EQ(to_printable(" a\n"), "\u0120a\u010A");
  EXPECT_EQ(code_point_of_byte(0xAD), 0x143u);
  EXPECT_EQ(code_point_of_byte(0xAE), 0xAEu);
  for (int b = 0; b < 256; ++b) {
    const std::string byte(1, static_cast<char>(b));
    EXPECT_EQ(from_printable(to_printable(byte)), byte);
  }
  EXPECT_EQ(from_printable(" "), std::nullopt);
  EXPECT_EQ(from_printable("\u0144"), std::nullopt);
  EXPECT_EQ(from_printable("\xC4"), std::nullopt);
}

TEST(Gpt2Vocabulary, HasItsKnownShape) {
  const auto vocabulary = test::gpt2_vocabulary();
  if (!vocabulary) GTEST_SKIP() << "WEFT_GPT2_DIR is not set";
  EXPECT_EQ(vocabulary->size(), 50257);
  EXPECT_EQ(vocabulary->end_of_document(), 50256);
  EXPECT_EQ(vocabulary->merges().size(), 50000u);
  EXPECT_EQ(vocabulary->num_unreachable(), 0);
  for (size_t rank = 0; rank < 50000; ++rank) {
    ASSERT_EQ(vocabulary->merges()[rank].result, static_cast<int32_t>(256 + rank));
  }
}

}  // namespace
}  // namespace weft
