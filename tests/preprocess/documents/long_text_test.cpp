// Long texts are tokenized in pieces that are cut anywhere, and long lines read with a permit: the
// same as if they were short.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "indexed_dataset/base/terminal/terminal_text.h"
#include "preprocess/documents/json_scanner.h"
#include "preprocess/documents/tokenize_chunk.h"
#include "preprocess/stream/line_chunks.h"
#include "tests/preprocess/compressed/byte_sources.h"
#include "tests/temporary_folder.h"
#include "tokenizer/train_vocabulary.h"

namespace weft {
namespace {

const std::vector<std::string> kUnits = {"a",
                                         "b",
                                         "1",
                                         " ",
                                         ".",
                                         "'s",
                                         "'",
                                         "\u00e9",
                                         "\u4e2d",
                                         "\U0001F600",
                                         R"(\n)",
                                         R"(\\)",
                                         R"(\")",
                                         R"(\/)",
                                         R"(\u0041)",
                                         R"(\u4e2d)",
                                         R"(\ud83d)",
                                         R"(\ude00)",
                                         R"(\uD83D\uDE00)",
                                         R"(\u000a)",
                                         "<|endoftext|>",
                                         R"(<|end\u006fftext|>)"};

std::string random_raw(std::mt19937& random, size_t num_units) {
  std::string raw;
  for (size_t i = 0; i < num_units; ++i) {
    const std::string& unit = kUnits[random() % kUnits.size()];
    const size_t count = random() % 10 == 0 ? random() % 40 : 1;
    for (size_t k = 0; k < count; ++k) raw += unit;
  }
  return raw;
}

TEST(UnescapeJson, InPiecesGivesThePartsOfTheWhole) {
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    const std::string raw = random_raw(random, random() % 30);
    std::string whole;
    std::string_view rest = raw;
    const int64_t num_replaced = unescape_json(rest, raw.size() + 1, whole);
    ASSERT_TRUE(rest.empty());
    for (size_t piece_bytes = 1; piece_bytes <= raw.size(); ++piece_bytes) {
      std::string parts;
      int64_t num_in_parts = 0;
      for (rest = raw; !rest.empty();) {
        std::string part;
        num_in_parts += unescape_json(rest, piece_bytes, part);
        ASSERT_TRUE(part.size() >= piece_bytes || rest.empty());
        ASSERT_LE(part.size(), piece_bytes + 7);
        ASSERT_EQ(num_valid_utf8_bytes(part), part.size()) << raw << " by " << piece_bytes;
        parts += part;
      }
      ASSERT_EQ(parts, whole) << raw << " by " << piece_bytes;
      ASSERT_EQ(num_in_parts, num_replaced) << raw << " by " << piece_bytes;
    }
  }
}

class LongTexts : public ::testing::Test {
 protected:
  LongTexts() {
    VocabularyTrainer trainer;
    trainer.add_text("aaaa abab aabb 1111 .... the and ' 's \u4e2d\u4e2d");
    const LearnedVocabulary learned = trainer.train(280, 1);
    std::ofstream(folder_.path() / "v.json", std::ios::binary) << learned.vocab_json;
    std::ofstream(folder_.path() / "m.txt", std::ios::binary) << learned.merges_txt;
    vocabulary_ = Vocabulary::load(folder_.path() / "v.json", folder_.path() / "m.txt");
  }

  std::string random_value(bool may_be_list) {
    if (!may_be_list || random_() % 3 != 0) {
      std::string value(1, '"');
      value += random_raw(random_, random_() % 10 == 0 ? 600 : random_() % 30);
      return value += '"';
    }
    std::string list = "[";
    for (uint64_t i = random_() % 60; i > 0; --i) {
      list += random_value(false) + (i > 1 ? " , " : "");
    }
    return list + "]";
  }
  std::string random_lines(int count) {
    std::string lines;
    for (int i = 0; i < count; ++i) {
      lines += R"({"title":)" + random_value(true) + R"(, "text": )" + random_value(true) + "}\n";
    }
    return lines;
  }

  Batch tokenize(const std::string& lines, const TokenizeRules& rules,
                 size_t text_piece_bytes = kTextPieceBytes) {
    LineChunk chunk;
    chunk.buffer.assign(lines.begin(), lines.end());
    chunk.size_bytes = lines.size();
    Batch result;
    ChunkTokenizer(vocabulary_, rules, text_piece_bytes).tokenize(chunk, result);
    return result;
  }
  static std::string all_tokens(const Batch::Output& output) {
    const auto bytes = output.token_bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::mt19937 random_{4};
  TemporaryFolder folder_;
  std::shared_ptr<const Vocabulary> vocabulary_;
};

TEST_F(LongTexts, GiveTheSameInPieces) {
  int64_t num_special = 0;
  for (int i = 0; i < 600; ++i) {
    TokenizeRules rules;
    rules.json_keys = {"text", "title"};
    rules.append_eod = random_() % 2 == 0;
    rules.on_bad_line = OnBadLine::kSkip;
    rules.special_tokens = static_cast<SpecialTokens>(random_() % 3);
    if (random_() % 2 == 0) rules.token_type = TokenType::kInt32;
    if (random_() % 2 == 0) rules.empty_documents = EmptyDocuments::kSkip;
    const std::string lines = random_lines(4);
    const Batch expected = tokenize(lines, rules);
    const Batch got = tokenize(lines, rules, 16 + random_() % 100);
    ASSERT_EQ(got.num_tokens, expected.num_tokens);
    ASSERT_EQ(got.num_documents, expected.num_documents);
    ASSERT_EQ(got.num_empty_documents, expected.num_empty_documents);
    ASSERT_EQ(got.num_replaced_surrogates, expected.num_replaced_surrogates);
    ASSERT_EQ(got.bad_line_counts.summary(), expected.bad_line_counts.summary());
    num_special += got.bad_line_counts.total();
    for (size_t k = 0; k < 2; ++k) {
      ASSERT_EQ(all_tokens(got.outputs[k]), all_tokens(expected.outputs[k])) << lines;
      ASSERT_EQ(got.outputs[k].sequence_lengths, expected.outputs[k].sequence_lengths) << lines;
      ASSERT_EQ(got.outputs[k].document_sequences, expected.outputs[k].document_sequences);
      ASSERT_EQ(got.outputs[k].line_offsets, expected.outputs[k].line_offsets);
      const DatasetCounts counts = got.outputs[k].counts(), all = expected.outputs[k].counts();
      ASSERT_EQ(counts.num_documents, all.num_documents);
      ASSERT_EQ(counts.num_sequences, all.num_sequences);
      ASSERT_EQ(counts.num_tokens, all.num_tokens);
    }
  }
  EXPECT_GT(num_special, 100);
}

// A few megabytes each, with the sizes that a run has.
TEST_F(LongTexts, OfMegabytesWithoutAPlaceToCut) {
  for (const std::string unit : {"1", "ab", "\u4e2d\u6587", ".-", R"(\n)", R"(\u0041)", " ",
                                 R"(\\)", R"(\ud83d\ude00)", "\", \"", "a\", \""}) {
    TokenizeRules rules;
    rules.token_type = TokenType::kInt32;
    std::string line = R"({"text": [")";
    while (line.size() < size_t{3} << 20) line += unit;
    line += "\"]}\n";
    // The text is not cut.
    const Batch expected = tokenize(line, rules, size_t{1} << 30);
    const Batch got = tokenize(line, rules);
    ASSERT_EQ(got.num_documents, 1);
    EXPECT_TRUE(all_tokens(got.outputs[0]) == all_tokens(expected.outputs[0])) << unit;
    EXPECT_TRUE(got.outputs[0].sequence_lengths == expected.outputs[0].sequence_lengths) << unit;
    EXPECT_EQ(got.num_replaced_surrogates, expected.num_replaced_surrogates);
  }
}

// A long line is a chunk of its own, whatever stands behind it.
TEST_F(LongTexts, GiveTheSameAsAChunkOfTheirOwn) {
  int64_t num_bad = 0;
  for (int i = 0; i < 1000; ++i) {
    TokenizeRules rules;
    rules.json_keys = {"text", "title"};
    rules.on_bad_line = OnBadLine::kSkip;
    rules.special_tokens = random_() % 8 == 0 ? SpecialTokens::kError : SpecialTokens::kLiteral;
    rules.max_line_bytes = random_() % 20 == 0 ? random_() % 2000 : 1 << 20;
    std::string line = R"({"title":)" + random_value(true) +
                       R"( , "x": [123456, "a", {"b": null}],)" +
                       std::string(random_() % 100, ' ') + R"("text": )" + random_value(true) + "}";
    if (random_() % 2 == 0) {
      const std::string wrong = "\"\\\t\xff\x80u {]";
      line[random_() % line.size()] = wrong[random_() % wrong.size()];
    }
    const std::string end = std::vector<std::string>{"\n", "\r\n", "\r", ""}[random_() % 4];
    const Batch expected = tokenize(line + end, rules);

    const std::string text = line + end + (end.empty() ? "" : "the next line");
    StringSource source(text, 1 + random_() % 300);
    LongLineGate gate(1);
    LineChunker chunker(source, 8 + random_() % 30, rules.max_line_bytes, &gate);
    LineChunk chunk;
    ASSERT_TRUE(chunker.next(chunk));
    ASSERT_TRUE(chunk.long_line_permit || chunk.is_too_long_line);
    ASSERT_EQ(chunk.num_bytes(), std::ssize(line + end));
    ASSERT_EQ(chunker.offset_bytes(), chunk.num_bytes());
    Batch got;
    ChunkTokenizer(vocabulary_, rules, 16 + random_() % 100).tokenize(chunk, got);
    chunk.drop_grown();

    SCOPED_TRACE(line);
    ASSERT_EQ(got.num_lines, 1);
    ASSERT_EQ(got.num_documents, expected.num_documents);
    ASSERT_EQ(got.num_tokens, expected.num_tokens);
    ASSERT_EQ(got.bad_lines.size(), expected.bad_lines.size());
    num_bad += std::ssize(got.bad_lines);
    if (!got.bad_lines.empty()) {
      ASSERT_EQ(got.bad_lines[0].outcome.problem, expected.bad_lines[0].outcome.problem);
      ASSERT_EQ(got.bad_lines[0].outcome.position, expected.bad_lines[0].outcome.position);
      ASSERT_EQ(got.bad_lines[0].outcome.detail, expected.bad_lines[0].outcome.detail);
    }
    for (size_t k = 0; k < 2; ++k) {
      ASSERT_EQ(all_tokens(got.outputs[k]), all_tokens(expected.outputs[k]));
      ASSERT_EQ(got.outputs[k].sequence_lengths, expected.outputs[k].sequence_lengths);
      ASSERT_EQ(got.outputs[k].line_offsets, expected.outputs[k].line_offsets);
    }
    // The bytes behind it are the next chunk.
    if (end.empty()) {
      ASSERT_FALSE(chunker.next(chunk));
    } else {
      ASSERT_TRUE(chunker.next(chunk));
      ASSERT_EQ(chunk.text(), "the next line");
      ASSERT_EQ(chunk.offset_bytes, std::ssize(line + end));
    }
  }
  EXPECT_GT(num_bad, 200);
  EXPECT_LT(num_bad, 800);
}

}  // namespace
}  // namespace weft
