#include "preprocess/documents/tokenize_chunk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <stdexcept>

#include "preprocess/documents/json_scanner.h"
#include "tests/temporary_folder.h"
#include "tests/tokenizer/load_files.h"
#include "tokenizer/formats/learned_files.h"
#include "tokenizer/train_vocabulary.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A vocabulary of bytes: GPT-2's ids of "a" and "b" are 64 and 65, that of <|endoftext|> is 256.
constexpr uint16_t kA = 64, kB = 65, kEnd = 256;

class TokenizeChunk : public ::testing::Test {
 protected:
  TokenizeChunk() {
    VocabularyTrainer trainer;
    trainer.add_text("a");
    const LearnedVocabulary learned = trainer.train(257, 1);
    const TemporaryFolder folder;
    write(folder.path() / "vocab.json", vocab_json_of(learned));
    write(folder.path() / "merges.txt", merges_txt_of(learned));
    vocabulary_ = test::load_gpt2_files(folder.path() / "vocab.json", folder.path() / "merges.txt");
    rules_.on_bad_line = OnBadLine::kSkip;
  }
  static void write(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }

  const Batch& tokenize(const std::string& text) {
    LineChunk chunk;
    chunk.buffer.assign(text.begin(), text.end());
    chunk.size_bytes = text.size();
    chunk.offset_bytes = 1000;
    ChunkTokenizer(vocabulary_, rules_).tokenize(chunk, result_);
    return result_;
  }
  std::vector<uint16_t> tokens(size_t key_idx = 0) const {
    EXPECT_TRUE(result_.outputs[key_idx].tokens_32.empty());
    return result_.outputs[key_idx].tokens_16;
  }

  std::shared_ptr<const Vocabulary> vocabulary_;
  TokenizeRules rules_;
  Batch result_;
};

TEST_F(TokenizeChunk, AStringIsADocumentOfOneSequence) {
  rules_.append_eod = true;
  const auto& output =
      tokenize("{\"text\":\"ab\"}\n{\"text\":\"\"}\r\nbad\n{\"text\":\"a\"}").outputs[0];
  EXPECT_THAT(tokens(), ElementsAre(kA, kB, kEnd, kA, kEnd));
  EXPECT_THAT(output.sequence_lengths, ElementsAre(3, 2));
  EXPECT_THAT(output.document_sequences, ElementsAre(1, 0, 1));
  EXPECT_THAT(output.locators, ElementsAre(1000, 1014, 1031));
  EXPECT_EQ(result_.num_documents, 3);
  EXPECT_EQ(result_.num_empty_documents, 1);
  EXPECT_EQ(result_.num_tokens, 5);
  EXPECT_EQ(result_.num_lines, 4);
  ASSERT_EQ(result_.bad_lines.size(), 1U);
  EXPECT_EQ(result_.bad_lines[0].offset_bytes, 1027);
}

// As Megatron-LM tools/preprocess_data.py: strings without tokens vanish, the end of the document
// belongs to the last that has some.
TEST_F(TokenizeChunk, AListIsADocumentOfSeveralSequences) {
  rules_.append_eod = true;
  const auto& output =
      tokenize(R"({"text":["ab","","b",""]})"
               "\n{\"text\":[]}\n{\"text\":[\"\"]}\n{\"text\":[\"a\",null]}\n{\"text\":[\"b\"]}\n")
          .outputs[0];
  EXPECT_THAT(tokens(), ElementsAre(kA, kB, kB, kEnd, kB, kEnd));
  EXPECT_THAT(output.sequence_lengths, ElementsAre(2, 2, 2));
  EXPECT_THAT(output.document_sequences, ElementsAre(2, 0, 0, 1));
  EXPECT_EQ(result_.num_empty_documents, 2);
  EXPECT_EQ(result_.bad_line_counts.summary(), "1 bad line (1 not a string)");
}

TEST_F(TokenizeChunk, EmptyDocumentsMayBeLeftOut) {
  rules_.empty_documents = EmptyDocuments::kSkip;
  const auto& output =
      tokenize("{\"text\":[]}\n{\"text\":\"\"}\n{\"text\":[\"\",\"b\"]}\n").outputs[0];
  EXPECT_THAT(tokens(), ElementsAre(kB));
  EXPECT_THAT(output.document_sequences, ElementsAre(1));
  EXPECT_THAT(output.locators, ElementsAre(1024));
  EXPECT_EQ(result_.num_documents, 3);
  EXPECT_EQ(result_.num_empty_documents, 2);
}

TEST_F(TokenizeChunk, ALineThatIsBadUnderOneKeyLeavesNothingUnderAnother) {
  rules_.json_keys = {"text", "title"};
  rules_.special_tokens = SpecialTokens::kError;
  tokenize(R"({"text":"a","title":"b"})"
           "\n"
           R"({"text":["a","b"],"title":["a","<|endoftext|>"]})"
           "\n"
           R"({"text":["b","a"],"title":[]})");
  EXPECT_THAT(tokens(0), ElementsAre(kA, kB, kA));
  EXPECT_THAT(tokens(1), ElementsAre(kB));
  EXPECT_THAT(result_.outputs[0].sequence_lengths, ElementsAre(1, 1, 1));
  EXPECT_THAT(result_.outputs[0].document_sequences, ElementsAre(1, 2));
  EXPECT_THAT(result_.outputs[1].document_sequences, ElementsAre(1, 0));
  EXPECT_EQ(result_.num_tokens, 4);
  EXPECT_EQ(result_.bad_line_counts.summary(), "1 bad line (1 special token in the text)");
}

TEST_F(TokenizeChunk, TheNextChunkStartsAfresh) {
  tokenize("{\"text\":\"ab\"}\nbad\n");
  tokenize("");
  EXPECT_THAT(tokens(), IsEmpty());
  EXPECT_THAT(result_.outputs[0].sequence_lengths, IsEmpty());
  EXPECT_THAT(result_.outputs[0].document_sequences, IsEmpty());
  EXPECT_THAT(result_.outputs[0].locators, IsEmpty());
  EXPECT_EQ(result_.num_lines, 0);
  EXPECT_THAT(result_.bad_lines, IsEmpty());
}

// Lines of over 1 MiB take another way through the parser.
TEST_F(TokenizeChunk, LongTextsGiveTheTokensOfTheirText) {
  std::mt19937 random(7);
  const std::vector<std::string> words = {"ab", "b",     " ",  "  ", R"(\n )",         "x9",
                                          ".",  R"(\")", "'s", "e ", R"(\ud83d\ude00)"};
  for (const bool has_spaces : {true, false}) {
    std::string raw;
    while (raw.size() < 3 * kMaxDomLineBytes) {
      raw += words[random() % words.size()];
      if (has_spaces) {
        if (random() % 3 == 0) raw += " ";
      } else {
        if (raw.back() == ' ') raw.pop_back();
        raw += std::string(4096, 'a');
      }
    }
    std::string text;
    std::string_view rest = raw;
    unescape_json(rest, raw.size(), text);
    std::vector<uint16_t> expected;
    Tokenizer(vocabulary_).encode(text, expected);
    tokenize("{\"text\":\"" + raw + "\"}\n{\"text\":\"b\"}\n");
    ASSERT_EQ(result_.num_documents, 2);
    ASSERT_EQ(result_.outputs[0].sequence_lengths.size(), 2U);
    EXPECT_EQ(result_.outputs[0].sequence_lengths[0], std::ssize(expected));
    std::vector<uint16_t> got = tokens();
    got.pop_back();
    EXPECT_TRUE(got == expected);
  }
}

TEST(TokenTypeOfFiles, FollowsMegatronUnlessItIsForced) {
  TokenizeRules rules;
  EXPECT_EQ(token_type(rules, 65499), TokenType::kUInt16);
  EXPECT_EQ(token_type(rules, 65500), TokenType::kInt32);
  rules.token_type = TokenType::kInt32;
  EXPECT_EQ(token_type(rules, 50257), TokenType::kInt32);
  rules.token_type = TokenType::kUInt16;
  EXPECT_EQ(token_type(rules, 65536), TokenType::kUInt16);
  EXPECT_THROW(token_type(rules, 65537), std::invalid_argument);
}

}  // namespace
}  // namespace weft
