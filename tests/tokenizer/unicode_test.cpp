// Classes of characters and normalization. The whole data is compared with the references' where
// WEFT_TOKENIZERS_DIR is set (its folder unicode/).
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tokenizer/unicode/char_classes.h"
#include "tokenizer/unicode/nfc.h"
#include "tokenizer/unicode/utf8.h"

namespace weft {
namespace {

using testing::ElementsAre;
using Version = CharClasses::Version;

constexpr uint32_t kNumCodePoints = 0x110000;

bool is_surrogate(uint32_t c) { return c >= 0xD800 && c < 0xE000; }

bool is_in(uint32_t c, ClassSet classes, Version version = Version::k16) {
  return (set_of(CharClasses::of(version).class_of(c)) & classes) != 0;
}

TEST(CharClasses, WhiteSpaceIsThePropertyOfTwentyFiveCodePoints) {
  std::vector<uint32_t> found;
  for (uint32_t c = 0; c < kNumCodePoints; ++c) {
    if (is_in(c, kWhiteSpace)) found.push_back(c);
  }
  EXPECT_THAT(found, ElementsAre(0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x20, 0x85, 0xA0, 0x1680, 0x2000,
                                 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                                 0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000));
}

// The digest is over 0, 1, 2 or 3 for each code point: other, letter, number, white space. That of
// 15.0 was made from ICU 72.
TEST(CharClasses, AreThoseOfTheVersionsThatTheyAreNamedAfter) {
  const auto digest = [](Version version) {
    uint64_t hash = 0xcbf29ce484222325;
    for (uint32_t c = 0; c < kNumCodePoints; ++c) {
      const uint8_t byte = is_in(c, kLetters, version)      ? 1
                           : is_in(c, kNumbers, version)    ? 2
                           : is_in(c, kWhiteSpace, version) ? 3
                                                            : 0;
      hash = (hash ^ byte) * 0x100000001b3;
    }
    return hash;
  };
  EXPECT_EQ(digest(Version::k15), 0x9309ca7afa2058b8u);
  EXPECT_NE(digest(Version::k16), digest(Version::k15));
  for (const uint32_t c : {0x2EBF0u, 0x1C89u}) {  // letters of 15.1 and 16.0
    EXPECT_TRUE(is_in(c, kLetters));
    EXPECT_FALSE(is_in(c, kLetters, Version::k15));
  }
}

class References : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("WEFT_TOKENIZERS_DIR") == nullptr)
      GTEST_SKIP() << "WEFT_TOKENIZERS_DIR is not set";
  }
  static nlohmann::json read(const std::string& name) {
    const std::string path = std::string(std::getenv("WEFT_TOKENIZERS_DIR")) + "/unicode/" + name;
    std::ifstream in(path);
    EXPECT_TRUE(in) << path;
    return nlohmann::json::parse(in);
  }
  static uint32_t number(const nlohmann::json& value) {
    return value.is_string()
               ? static_cast<uint32_t>(std::stoul(value.get<std::string>(), nullptr, 16))
               : value.get<uint32_t>();
  }
  static void expect_ranges(const nlohmann::json& ranges, ClassSet classes, Version version) {
    std::vector<bool> expected(kNumCodePoints);
    for (const auto& range : ranges) {
      for (uint32_t c = number(range[0]); c <= number(range[1]); ++c) expected[c] = true;
    }
    for (uint32_t c = 0; c < kNumCodePoints; ++c) {
      if (is_surrogate(c)) continue;
      ASSERT_EQ(is_in(c, classes, version), expected[c]) << std::hex << c;
    }
  }
};

TEST_F(References, HaveTheSameClasses) {
  const nlohmann::json classes = read("classes-16.0.json");
  const std::map<std::string, ClassSet> sets = {{"L", kLetters},
                                                {"N", kNumbers},
                                                {"M", kMarks},
                                                {"P", set_of(CharClass::kPunctuation)},
                                                {"S", set_of(CharClass::kSymbol)},
                                                {"Ll", set_of(CharClass::kLower)},
                                                {"White_Space", kWhiteSpace}};
  for (const auto& [name, set] : sets) expect_ranges(classes[name], set, Version::k16);
  for (const auto& [names, set] : {std::pair{std::pair{"Lu", "Lt"}, set_of(CharClass::kUpper)},
                                   {std::pair{"Lm", "Lo"}, set_of(CharClass::kCaseless)}}) {
    nlohmann::json both = classes[names.first];
    both.insert(both.end(), classes[names.second].begin(), classes[names.second].end());
    expect_ranges(both, set, Version::k16);
  }
  expect_ranges(read("hf-digits-17.0.json")["N"], kNumbers, Version::kNumbersOf17);
  expect_ranges(read("hf-punctuation-8.0.json")["ranges"], set_of(CharClass::kPunctuation),
                Version::kPunctuationOf8);
}

std::string utf8_of(const std::vector<uint32_t>& code_points) {
  std::string text;
  for (const uint32_t c : code_points) append_utf8(c, text);
  return text;
}

std::string nfc(const std::string& text) {
  std::string scratch = "what was there before";
  return std::string(to_nfc(text, scratch));
}

TEST(Nfc, ReturnsNormalizedTextItself) {
  std::string scratch;
  for (const std::string text :
       {"", "plain text of more than eight bytes", "caf\u00E9 \u0E01\u0E48", "\uAC01 \u4E2D\u3000",
        "\xFF\xC3 a", "\u0995\u09BE", "\u0301"}) {
    EXPECT_EQ(to_nfc(text, scratch).data(), text.data()) << text;
  }
}

TEST(Nfc, ComposesDecomposesAndReorders) {
  EXPECT_EQ(nfc("cafe\u0301!"), "caf\u00E9!");
  EXPECT_EQ(nfc("e\u0301e\u0301"), "\u00E9\u00E9");
  EXPECT_EQ(nfc("a\u0302\u0323"), "\u1EAD");                   // reordered, then composed twice
  EXPECT_EQ(nfc("\u00E0\u0323"), "\u1EA1\u0300");              // taken apart again
  EXPECT_EQ(nfc("\u212B\u2126\u2000"), "\u00C5\u03A9\u2002");  // singletons
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093C");                    // composition exclusion
  EXPECT_EQ(nfc("\u1100\u1161\u11A8"), "\uAC01");
  EXPECT_EQ(nfc("\uAC00\u11A8"), "\uAC01");
  EXPECT_EQ(nfc("\uAC01\u11A8"), "\uAC01\u11A8");  // it has a last consonant already
  EXPECT_EQ(nfc("\u09C7\u09BE"), "\u09CB");
  EXPECT_EQ(nfc("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(nfc("e\xFF\u0301 e\u0301"), "e\xFF\u0301 \u00E9");  // bad bytes separate
}

TEST(Nfc, LeavesCharactersThatAreYoungerThan9AsTheyAre) {
  EXPECT_EQ(nfc("\U00011935\U00011930"), "\U00011935\U00011930");  // composes since 13.0
  EXPECT_EQ(nfc("a\u0345\u08D3\u0327"), "a\u0345\u08D3\u0327");    // U+08D3 is a mark since 11.0
}

// Normalization form C as the standard defines it, on the data of the reference.
class PlainNfc {
 public:
  explicit PlainNfc(const nlohmann::json& data) {
    for (const auto& [c, value] : data["ccc"].get<std::vector<std::pair<uint32_t, int>>>())
      ccc_[c] = value;
    for (const auto& entry : data["decomposition"])
      decompositions_[entry[0]] = entry[1].get<std::vector<uint32_t>>();
    for (const auto& entry : data["composition"]) compositions_[{entry[0], entry[1]}] = entry[2];
  }

  std::vector<uint32_t> operator()(const std::vector<uint32_t>& text) const {
    std::vector<uint32_t> chars;
    for (const uint32_t c : text) decompose(c, chars);
    for (size_t i = 1; i < chars.size(); ++i) {
      for (size_t k = i; k > 0 && ccc(chars[k]) != 0 && ccc(chars[k - 1]) > ccc(chars[k]); --k)
        std::swap(chars[k], chars[k - 1]);
    }
    for (size_t starter = 0; starter < chars.size(); ++starter) {
      if (ccc(chars[starter]) != 0) continue;
      for (size_t i = starter + 1; i < chars.size();) {
        const int before = i == starter + 1 ? -1 : ccc(chars[i - 1]);
        const uint32_t both = before < ccc(chars[i]) ? compose(chars[starter], chars[i]) : 0;
        if (both != 0) {
          chars[starter] = both;
          chars.erase(chars.begin() + static_cast<ptrdiff_t>(i));
        } else if (ccc(chars[i]) == 0) {
          break;
        } else {
          ++i;
        }
      }
    }
    return chars;
  }

  std::vector<uint32_t> interesting() const {
    std::vector<uint32_t> found = {'a', ' ', 0x1100, 0x1161, 0x11A8, 0xAC00, 0xAC01};
    for (const auto& [c, value] : ccc_) found.push_back(c);
    for (const auto& [c, value] : decompositions_) found.push_back(c);
    for (const auto& [pair, value] : compositions_) found.push_back(pair.second);
    return found;
  }

 private:
  int ccc(uint32_t c) const {
    const auto found = ccc_.find(c);
    return found == ccc_.end() ? 0 : found->second;
  }
  void decompose(uint32_t c, std::vector<uint32_t>& out) const {
    if (c >= 0xAC00 && c < 0xAC00 + 11172) {
      out.push_back(0x1100 + (c - 0xAC00) / 588);
      out.push_back(0x1161 + (c - 0xAC00) / 28 % 21);
      if ((c - 0xAC00) % 28 != 0) out.push_back(0x11A7 + (c - 0xAC00) % 28);
      return;
    }
    const auto found = decompositions_.find(c);
    if (found == decompositions_.end()) return out.push_back(c);
    for (const uint32_t part : found->second) decompose(part, out);
  }
  uint32_t compose(uint32_t a, uint32_t b) const {
    if (a >= 0x1100 && a < 0x1113 && b >= 0x1161 && b < 0x1176)
      return 0xAC00 + ((a - 0x1100) * 21 + (b - 0x1161)) * 28;
    if (a >= 0xAC00 && a < 0xAC00 + 11172 && (a - 0xAC00) % 28 == 0 && b > 0x11A7 && b < 0x11C3)
      return a + (b - 0x11A7);
    const auto found = compositions_.find({a, b});
    return found == compositions_.end() ? 0 : found->second;
  }

  std::map<uint32_t, int> ccc_;
  std::map<uint32_t, std::vector<uint32_t>> decompositions_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> compositions_;
};

TEST_F(References, HaveTheSameNfc) {
  const PlainNfc plain(read("nfc-9.0.json"));
  for (uint32_t c = 0; c < kNumCodePoints; ++c) {
    if (is_surrogate(c)) continue;
    for (const std::vector<uint32_t>& text : {std::vector{c}, {0x345, c, 0x327}, {'e', c, 0x301}})
      ASSERT_EQ(nfc(utf8_of(text)), utf8_of(plain(text))) << std::hex << c;
  }
  const std::vector<uint32_t> interesting = plain.interesting();
  std::mt19937 random(31);
  for (int round = 0; round < 200000; ++round) {
    std::vector<uint32_t> text(1 + random() % 8);
    for (uint32_t& c : text) c = interesting[random() % interesting.size()];
    ASSERT_EQ(nfc(utf8_of(text)), utf8_of(plain(text)))
        << "seed 31, " << testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace weft
