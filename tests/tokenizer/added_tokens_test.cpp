#include "tokenizer/added_tokens.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/tokenizer/golden.h"
#include "tokenizer/formats/load_tokenizer.h"
#include "tokenizer/longest_match.h"
#include "tokenizer/tokenizer.h"

namespace weft {
namespace {

using testing::IsEmpty;

using Matches = std::vector<std::tuple<size_t, size_t, size_t>>;

Matches matches_of(const std::vector<std::string>& strings, std::string_view text) {
  const LongestMatch set(strings);
  LongestMatch::Search search(set, text);
  Matches matches;
  while (const auto match = search.next())
    matches.emplace_back(match->begin, match->end, match->string_idx);
  EXPECT_FALSE(search.next()) << "a match behind the last one";
  return matches;
}

// The definition: every place from left to right, every string.
Matches plain_matches_of(const std::vector<std::string>& strings, std::string_view text) {
  Matches matches;
  for (size_t at = 0; at < text.size(); ++at) {
    std::optional<size_t> longest;
    for (size_t i = 0; i < strings.size(); ++i) {
      if (text.substr(at).starts_with(strings[i]) &&
          (!longest || strings[i].size() > strings[*longest].size()))
        longest = i;
    }
    if (!longest) continue;
    matches.emplace_back(at, at + strings[*longest].size(), *longest);
    at += strings[*longest].size() - 1;
  }
  return matches;
}

std::string random_text(std::mt19937& random, std::string_view alphabet, size_t max_bytes) {
  std::string text(random() % (max_bytes + 1), '\0');
  for (char& c : text) c = alphabet[random() % alphabet.size()];
  return text;
}

TEST(LongestMatch, FindsTheLeftmostAndThereTheLongest) {
  EXPECT_EQ(matches_of({"<a>", "<a><b>", "a"}, "x<a><b><a>a"),
            (Matches{{1, 7, 1}, {7, 10, 0}, {10, 11, 2}}));
  EXPECT_EQ(matches_of({"ab", "ab"}, "ab"), (Matches{{0, 2, 0}})) << "of equal ones the first";
  EXPECT_THAT(matches_of({"<a>"}, ""), IsEmpty());
  EXPECT_THAT(matches_of({"<a>"}, "<a"), IsEmpty());
}

// Few and many first bytes, one and several second ones, texts that are shorter and longer than a
// block of the fast search.
TEST(LongestMatch, FindsWhatThePlainDefinitionDoes) {
  std::mt19937 random(34);
  for (const std::string_view alphabet : {"ab", "<|a>", "  x", "abcdefgh \xC3\xA9"}) {
    for (int round = 0; round < 4000; ++round) {
      std::vector<std::string> strings;
      for (size_t left = 1 + random() % 9; left > 0; --left)
        strings.push_back(random_text(random, alphabet, 5) + alphabet[random() % alphabet.size()]);
      const std::string rare(random() % 3 * 100, '.');
      const std::string text =
          random_text(random, alphabet, 40) + rare + random_text(random, alphabet, 90);
      ASSERT_EQ(matches_of(strings, text), plain_matches_of(strings, text)) << text;
    }
  }
}

// Pieces as text: "[id]" for a token, what is ordinary as it is, with bars between them.
std::string cut(const AddedTokens& tokens, std::string_view text) {
  std::vector<AddedTokens::Piece> pieces;
  tokens.cut(text, pieces);
  std::string result;
  for (const AddedTokens::Piece& piece : pieces) {
    if (piece.id >= 0) {
      result.append("[").append(std::to_string(piece.id)).append("]|");
    } else {
      result.append(piece.text).append("|");
    }
  }
  return result;
}

TEST(AddedTokens, OfSpecialOnesTheModeDecides) {
  const std::vector<AddedToken> tokens = {{.content = "<s>", .id = 1},
                                          {.content = "<t>", .id = 2, .special = false}};
  const AddedTokens literal(tokens, SpecialTokens::kLiteral), token(tokens, SpecialTokens::kToken),
      error(tokens, SpecialTokens::kError);
  EXPECT_EQ(cut(literal, "a<s> <t>b"), "a<s> |[2]|b|");
  EXPECT_EQ(cut(token, "a<s> <t>b"), "a|[1]| |[2]|b|");
  EXPECT_EQ(cut(error, "a <t>b"), "a |[2]|b|");
  try {
    cut(error, "a<s>");
    FAIL() << "a special token was let through";
  } catch (const SpecialTokenInText& found) {
    EXPECT_EQ(found.content(), "<s>");
  }
  EXPECT_TRUE(AddedTokens({tokens[0]}, SpecialTokens::kLiteral).empty());
}

// Hugging Face finds the longest match first, and skips it then.
TEST(AddedTokens, AShorterTokenInsideALiteralSpecialOneIsNotFound) {
  const AddedTokens tokens(
      {{.content = "<s><t>", .id = 1}, {.content = "<t>", .id = 2, .special = false}},
      SpecialTokens::kLiteral);
  EXPECT_EQ(cut(tokens, "<s><t><t>"), "<s><t>|[2]|");
}

TEST(AddedTokens, TakeTheWhiteSpaceBesideThem) {
  const AddedTokens tokens(
      {{.content = "<l>", .id = 1, .lstrip = true}, {.content = "<r>", .id = 2, .rstrip = true}},
      SpecialTokens::kToken);
  EXPECT_EQ(cut(tokens, "a \u3000\t<l> b"), "a|[1]| b|");
  EXPECT_EQ(cut(tokens, "a <r>\n\u2003 b"), "a |[2]|b|");
  EXPECT_EQ(cut(tokens, " <r>  <l>  "), " |[2]|[1]|  |") << "the first one has taken it";
  EXPECT_EQ(cut(tokens, "  <l>"), "[1]|");
}

TEST(AddedTokens, AWordOfItsOwnIsTouchedByNoWordCharacter) {
  const AddedTokens tokens({{.content = "tok", .id = 1, .single_word = true}},
                           SpecialTokens::kToken);
  EXPECT_EQ(cut(tokens, "tok-tok tok"), "[1]|-|[1]| |[1]|");
  for (const char* word : {"atok", "tok1", "tok_", "\u00E9tok", "tok\u0301", "tok\u200D",
                           "\u203Ftok", "tok\u0661", "tok\u2160", "\u24D0tok"})
    EXPECT_EQ(cut(tokens, word), std::string(word) + "|");
  // Numbers that are no digits, and bytes that are no character.
  for (const char* other : {"\u00B2", "\u00BD", "\u20AC", "\xFF", "\u2460"})
    EXPECT_EQ(cut(tokens, other + std::string("tok")), std::string(other) + "|[1]|");
}

// tokenizers' find_matches(), with the plain definition of a match.
std::string plain_cut(const std::vector<AddedToken>& tokens, std::string_view text) {
  std::vector<std::string> contents;
  for (const AddedToken& token : tokens) contents.push_back(token.content);
  const auto is_space = [](char c) { return c == ' ' || c == '\n'; };
  const auto is_word = [](char c) { return c == 'a' || c == 'b'; };
  std::string result;
  size_t done = 0;
  for (const auto& [first, last, idx] : plain_matches_of(contents, text)) {
    const AddedToken& token = tokens[idx];
    size_t begin = first, end = last;
    if (token.special) continue;
    if (token.single_word &&
        ((begin > 0 && is_word(text[begin - 1])) || (end < text.size() && is_word(text[end]))))
      continue;
    if (token.lstrip) {
      while (begin > 0 && is_space(text[begin - 1])) --begin;
      begin = std::max(begin, done);
    }
    while (token.rstrip && end < text.size() && is_space(text[end])) ++end;
    if (done < begin) result += std::string(text.substr(done, begin - done)) + "|";
    if (begin < end) result.append("[").append(std::to_string(token.id)).append("]|");
    done = end;
  }
  return done < text.size() ? result + std::string(text.substr(done)) + "|" : result;
}

std::vector<AddedToken> random_tokens(std::mt19937& random, std::string_view alphabet) {
  std::vector<AddedToken> tokens;
  for (int id = 0; id < 4; ++id) {
    const std::string content =
        random_text(random, alphabet, 3) + alphabet[random() % alphabet.size()];
    const bool is_new = std::none_of(tokens.begin(), tokens.end(),
                                     [&](const auto& other) { return other.content == content; });
    if (!is_new) continue;
    tokens.push_back({.content = content,
                      .id = id,
                      .special = random() % 4 == 0,
                      .lstrip = random() % 3 == 0,
                      .rstrip = random() % 3 == 0,
                      .single_word = random() % 4 == 0});
  }
  return tokens;
}

TEST(AddedTokens, CutAsThePlainDefinitionDoes) {
  constexpr std::string_view kAlphabet = "ab< \n";
  std::mt19937 random(35);
  for (int round = 0; round < 20'000; ++round) {
    const std::vector<AddedToken> tokens = random_tokens(random, kAlphabet);
    const AddedTokens set(tokens, SpecialTokens::kLiteral);
    const std::string text = random_text(random, kAlphabet, 40);
    if (set.empty()) continue;
    ASSERT_EQ(cut(set, text), plain_cut(tokens, text)) << text;
  }
}

TEST(AddedTokens, ATextMayBeCutWhereNoTokenReachesAcross) {
  constexpr std::string_view kAlphabet = "ab< \n";
  std::mt19937 random(36);
  int num_cuts = 0;
  for (int round = 0; round < 20'000; ++round) {
    const std::vector<AddedToken> tokens = random_tokens(random, kAlphabet);
    const AddedTokens set(tokens, SpecialTokens::kLiteral);
    const std::string text = random_text(random, kAlphabet, 40);
    if (set.empty() || text.size() < 2) continue;
    const size_t at = 1 + random() % (text.size() - 1);
    if (!set.may_cut_between(text[at - 1], text[at])) continue;
    ++num_cuts;
    const std::string_view view = text;
    std::string parts = cut(set, view.substr(0, at)) + cut(set, view.substr(at));
    // Ordinary text on both sides of the cut is one piece in the whole.
    std::string whole = cut(set, text);
    std::erase(parts, '|');
    std::erase(whole, '|');
    ASSERT_EQ(parts, whole) << text << " cut at " << at;
  }
  EXPECT_GT(num_cuts, 1000);
  const AddedTokens tokens({{.content = "<s>", .id = 1}}, SpecialTokens::kToken);
  EXPECT_TRUE(tokens.may_cut_between('a', ' '));
  EXPECT_FALSE(tokens.may_cut_between('<', 's'));
  EXPECT_FALSE(tokens.may_cut_between('a', '\xC3'));
}

// A tokenizer.json with NFC and added tokens of every kind (tests/golden/tokenizer).
std::shared_ptr<const Vocabulary> small_tokenizer() {
  const std::filesystem::path path = test::golden_folder() / "small_tokenizer.json";
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  return load_tokenizer({path.string(), bytes});
}

TEST(AddedTokens, OfEveryKindGiveTheIdsOfHuggingFace) {
  const auto vocabulary = small_tokenizer();
  Tokenizer literal(vocabulary), special(vocabulary, SpecialTokens::kToken);
  std::ifstream file(test::golden_folder() / "added_tokens.jsonl");
  int num_texts = 0;
  for (std::string line; std::getline(file, line); ++num_texts) {
    const auto golden = nlohmann::json::parse(line);
    const std::string text = golden["text"];
    EXPECT_EQ(test::encode(literal, text), golden["literal"].get<std::vector<int32_t>>()) << text;
    EXPECT_EQ(test::encode(special, text), golden["special"].get<std::vector<int32_t>>()) << text;
    std::vector<int32_t> ids;
    special.encode_with_template(text, ids);
    EXPECT_EQ(ids, golden["template"].get<std::vector<int32_t>>()) << text;
  }
  EXPECT_GT(num_texts, 400);
}

TEST(AddedTokens, TheIdsOfBothSidesOfASafeCutAreThoseOfTheWhole) {
  Tokenizer tokenizer(small_tokenizer(), SpecialTokens::kToken);
  std::mt19937 random(37);
  const std::vector<std::string> kPieces = {"<mask>", "<pad>", "word",   "  ",  " ", "e", "\u0301",
                                            "!",      "\t",    "\u2000", "the", ".", "a", "\n"};
  int num_cuts = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) text += kPieces[random() % kPieces.size()];
    const std::vector<int32_t> whole = test::encode(tokenizer, text);
    for (size_t at = 1; at < text.size(); ++at) {
      if (!tokenizer.is_safe_cut(text, at)) continue;
      ++num_cuts;
      std::vector<int32_t> parts = test::encode(tokenizer, text.substr(0, at));
      tokenizer.encode(text.substr(at), parts);
      ASSERT_EQ(parts, whole) << text << " cut at " << at;
    }
  }
  EXPECT_GT(num_cuts, 1000);
}

}  // namespace
}  // namespace weft
