// A plain interpreter of the patterns of tokenizers: backtracking, no cleverness, nothing shared
// with the splitters but the classes of characters. It is what the splitters are tested against.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/pieces/split_kind.h"
#include "tokenizer/unicode/unicode_version.h"

namespace weft::test {

// How an engine understands what both accept: `{1,3}+` is a repeated group in Oniguruma (Ruby's
// syntax) and possessive in fancy-regex; `$` is the end of a line in the first, of the text in the
// second.
enum class Engine { kOniguruma, kFancyRegex };

// A regular expression of the subset that the patterns use.
class Regex {
 public:
  Regex(std::u32string_view pattern, Engine engine, UnicodeVersion version = UnicodeVersion::k16);
  // Returns the end of the match at `begin`, or npos.
  size_t match(std::u32string_view text, size_t begin) const;

  struct Node;

 private:
  std::shared_ptr<const Node> root_;
};

// Cuts `text` as the tokenizer of this kind does, by its own sequence of steps. A byte that is not
// part of valid UTF-8 counts as a character of no class.
std::vector<std::string> interpreted_pieces(SplitKind kind, std::string_view text,
                                            UnicodeVersion version = UnicodeVersion::k16);

}  // namespace weft::test
