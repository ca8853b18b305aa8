// Encodes a text that comes in parts: of each part what is certain whatever follows, so that
// neither the text nor its ids need ever be in memory as a whole.
//
// Pieces of the pattern. Where a piece ends depends on the piece, on the character behind it and,
// after an apostrophe, on one byte more. So the pieces that end two bytes before the part's end or
// earlier are those of the whole text.
//
// Within a word of megabytes (letters without a space, a run of spaces, punctuation). Merging is
// the same as going through the rules by rank, joining for each from left to right what it joins,
// for a rule's parts are made by earlier ones. Take two words that begin alike. At first their
// tokens, the bytes, agree to where the beginning they share ends. A rule can only change that by
// the last token in which they agree, if it is the rule's left part and finds its right part behind
// it in one word only. So a rule takes back at most the bytes of its left part, and all tokens that
// end before those of all rules together (168 KB with GPT-2's) are settled.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/split/unicode_classes.h"

namespace weft {

class TextEncoder;
class Vocabulary;

// What is to be known of the parts before: the class of the word that goes on, if one was begun.
struct BegunText {
  std::optional<CharClass> word;
};

class PartEncoder {
 public:
  // Both must outlive it.
  PartEncoder(const Vocabulary& vocabulary, TextEncoder& encoder);

  // Appends the ids of the beginning of `text` and returns the number of its bytes: all with
  // `is_last`, else at most 2 * num_unsettled_bytes() + 66 less. What is left begins the next part,
  // which ends between two characters, as this one. `text` is a text from its beginning, with a
  // `begun` that is empty, or goes on where the call before ended.
  template <typename Id>
  size_t encode(std::string_view text, bool is_last, BegunText& begun, std::vector<Id>& ids);

  // Tokens that end so many bytes before the end of what is known of a word are settled. Without
  // limit for a vocabulary that has a rule before those that make its parts.
  size_t num_unsettled_bytes() const { return num_unsettled_bytes_; }

 private:
  template <typename Id>
  size_t go_on(std::string_view text, size_t run_begin, bool is_last, BegunText& begun,
               std::vector<Id>& ids);
  template <typename Id>
  size_t encode_settled(std::string_view word, std::vector<Id>& ids);

  const Vocabulary& vocabulary_;
  TextEncoder& encoder_;
  size_t num_unsettled_bytes_;
};

}  // namespace weft
