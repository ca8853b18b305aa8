#include "tokenizer/split/split_patterns.h"

#include <stdexcept>
#include <vector>

#include "tokenizer/pieces/bloom_piece.h"
#include "tokenizer/pieces/deepseek_piece.h"
#include "tokenizer/pieces/gpt2_piece.h"
#include "tokenizer/pieces/llama3_piece.h"
#include "tokenizer/pieces/o200k_piece.h"
#include "tokenizer/split/split_simd.h"
#include "tokenizer/split/split_tables.h"

namespace weft {
namespace {

// A block may hold so many pieces; with less room the vector splitters could not write what they
// find.
constexpr size_t kMaxPiecesOfABlock = 64;

constexpr ClassSet kPunctuation = set_of(CharClass::kPunctuation);
constexpr ClassSet kSymbols = set_of(CharClass::kSymbol);
constexpr ClassSet kAnyButWhiteSpace = kLetters | kMarks | kNumbers | kPunctuation | kSymbols;

struct PatternParts {
  PieceEnd piece_end;
  CharClasses::Version classes;
  std::vector<ClassSet> groups;  // of classes that are told apart
  // Behind characters of these classes, in ASCII, white space starts a piece: any, and any but the
  // end of a line. No piece that starts with white space depends on what stands before it, and none
  // that ends before white space on what follows.
  ClassSet before_white_space, before_blanks;
};

PatternParts parts_of(SplitKind kind) {
  using Version = CharClasses::Version;
  const std::vector<ClassSet> kCoarse = {kLetters, kNumbers, kWhiteSpace};
  const std::vector<ClassSet> kWithMarks = {kLetters | kMarks, kNumbers, kWhiteSpace};
  const std::vector<ClassSet> kAll = {set_of(CharClass::kUpper),
                                      set_of(CharClass::kLower),
                                      set_of(CharClass::kCaseless),
                                      kMarks,
                                      kNumbers,
                                      kWhiteSpace,
                                      kPunctuation,
                                      kSymbols};
  const auto llama3 = [&](PieceEnd piece_end, const std::vector<ClassSet>& groups) {
    return PatternParts{piece_end, Version::k16, groups, kLetters | kNumbers, kAnyButWhiteSpace};
  };
  const auto gpt2 = [](PieceEnd piece_end, Version version, const std::vector<ClassSet>& groups) {
    return PatternParts{piece_end, version, groups, kAnyButWhiteSpace, kAnyButWhiteSpace};
  };
  switch (kind) {
    case SplitKind::kGpt2:
      return gpt2(gpt2_piece_end, Version::k16, kCoarse);
    case SplitKind::kStarCoder:
      return gpt2(starcoder_piece_end, Version::kNumbersOf17, kCoarse);
    case SplitKind::kFalcon:
      return gpt2(falcon_piece_end, Version::kPunctuationOf8,
                  {kLetters, kNumbers, kWhiteSpace, kPunctuation});
    case SplitKind::kBloom:
      return {bloom_piece_end,
              Version::kStopsOfBloom,
              {kWhiteSpace, kPunctuation},
              kAnyButWhiteSpace & ~kPunctuation,
              kAnyButWhiteSpace & ~kPunctuation};
    case SplitKind::kCl100k:
      return llama3(llama3_piece_end<kCl100kRules>, kCoarse);
    case SplitKind::kCl100kOniguruma:
      return llama3(llama3_piece_end<kCl100kOnigurumaRules>, kCoarse);
    case SplitKind::kLlama3:
      return llama3(llama3_piece_end<kLlama3Rules>, kCoarse);
    case SplitKind::kQwen2:
      return llama3(llama3_piece_end<kQwen2Rules>, kCoarse);
    case SplitKind::kMegatronV1:
      return llama3(llama3_piece_end<kMegatronV1Rules>, kCoarse);
    case SplitKind::kQwen35:
      return llama3(llama3_piece_end<kQwen35Rules>, kWithMarks);
    case SplitKind::kO200k:
      return llama3(o200k_piece_end<kO200kRules>, kAll);
    case SplitKind::kTekken:
      return llama3(o200k_piece_end<kTekkenRules>, kAll);
    case SplitKind::kDeepSeekV3:
      return {deepseek_piece_end,
              Version::kDeepSeek,
              {kDeepSeekWords, kDeepSeekOthers, kDeepSeekHan, kNumbers, kWhiteSpace},
              kLetters | kNumbers,
              kAnyButWhiteSpace};
  }
  throw std::invalid_argument("make_split_pattern: no such kind");
}

SplitBatch vector_splitter([[maybe_unused]] SplitKind kind, Simd simd) {
#if defined(__x86_64__)
  if (simd == Simd::kAvx512) return split_batch_avx512(kind);
  if (simd == Simd::kAvx2) return split_batch_avx2(kind);
#elif defined(__aarch64__)
  if (simd == Simd::kNeon) return split_batch_neon(kind);
#endif
  return nullptr;
}

class KnownPattern final : public SplitPattern {
 public:
  KnownPattern(const PatternParts& parts, SplitBatch vector_splitter)
      : piece_end_(parts.piece_end),
        vector_splitter_(vector_splitter),
        tables_(CharClasses::of(parts.classes), parts.groups),
        before_white_space_(parts.before_white_space),
        before_blanks_(parts.before_blanks) {}

  size_t split(std::string_view text, size_t begin, size_t* ends,
               size_t max_pieces) const override {
    if (vector_splitter_ != nullptr && max_pieces >= kMaxPiecesOfABlock)
      return vector_splitter_(tables_, text, begin, ends, max_pieces);
    const auto* const data = reinterpret_cast<const uint8_t*>(text.data());
    const PatternText pattern_text = {tables_.classes, data, data + text.size()};
    const uint8_t* p = data + begin;
    size_t num_pieces = 0;
    while (num_pieces < max_pieces && p < pattern_text.end) {
      p = piece_end_(pattern_text, p);
      ends[num_pieces++] = static_cast<size_t>(p - data);
    }
    return num_pieces;
  }

  bool is_safe_cut(std::string_view text, size_t at) const override {
    const auto before = static_cast<uint8_t>(text[at - 1]), behind = static_cast<uint8_t>(text[at]);
    if (before >= 0x80 || behind >= 0x80) return false;
    const ClassSet* const set_of_ascii = tables_.classes.set_of_ascii;
    return (set_of_ascii[behind] & kWhiteSpace) != 0 &&
           (set_of_ascii[before] & (is_newline(behind) ? before_white_space_ : before_blanks_)) !=
               0;
  }

 private:
  PieceEnd piece_end_;
  SplitBatch vector_splitter_;  // or null
  SplitTables tables_;
  ClassSet before_white_space_, before_blanks_;
};

}  // namespace

std::shared_ptr<const SplitPattern> make_split_pattern(SplitKind kind, UnicodeVersion version,
                                                       Simd simd) {
  PatternParts parts = parts_of(kind);
  if (version == UnicodeVersion::k15) {
    if (kind != SplitKind::kGpt2)
      throw std::invalid_argument("only GPT-2's pattern is there for Unicode 15.0");
    parts.classes = CharClasses::Version::k15;
  }
  return std::make_shared<KnownPattern>(parts, vector_splitter(kind, simd));
}

}  // namespace weft
