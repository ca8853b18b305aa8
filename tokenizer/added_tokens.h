// Cuts the added tokens out of a text as Hugging Face's tokenizers do.
// [tokenizers 0.23.3, tokenizer/added_vocabulary.rs]
#pragma once

#include <bitset>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/longest_match.h"
#include "tokenizer/vocabulary.h"

namespace weft {

// Says what becomes of a special token's content inside a text: ordinary text (a document cannot
// forge a boundary), the token (as Megatron's and Hugging Face's tokenizers do today), or an error.
// Added tokens that are not special are tokens in any case.
enum class SpecialTokens { kLiteral, kToken, kError };

// A text holds a special token's content under SpecialTokens::kError.
class SpecialTokenInText : public std::runtime_error {
 public:
  explicit SpecialTokenInText(std::string content);
  const std::string& content() const { return content_; }

 private:
  std::string content_;
};

// The tokens that are looked for at once: all that are normalized, or all that are not. Immutable
// and thread-safe.
class AddedTokens {
 public:
  struct Piece {
    std::string_view text;  // ordinary text, where id is -1
    int32_t id = -1;
  };

  AddedTokens(std::vector<AddedToken> tokens, SpecialTokens special_tokens);

  // True if no text has any of them.
  bool empty() const { return contents_.empty(); }
  // Appends the pieces of `text`, in order. The longest of the contents that begin at a place is
  // found there, and what it covers is passed: where it does not count, as a special token that is
  // literal, no shorter one inside it is looked for.
  void cut(std::string_view text, std::vector<Piece>& pieces) const;
  // True if no token, nor white space that it takes, reaches from a character to the one behind it.
  // False for bytes that are not ASCII, if there are tokens.
  bool may_cut_between(char before, char behind) const;

 private:
  void forbid_cuts_inside(const AddedToken& token);
  bool counts(const AddedToken& token, std::string_view text, const LongestMatch::Match& at) const;

  std::vector<AddedToken> tokens_;
  SpecialTokens special_tokens_;
  LongestMatch contents_;
  std::bitset<128 * 128> forbidden_cuts_;  // at 128 * before + behind
};

}  // namespace weft
