// Encodes a text that comes in parts. It encodes of each part what is certain whatever follows, so
// that neither the text nor its ids need ever be in memory as a whole.
//
// Between pieces the pattern says where the text may be cut whatever follows it, and of a piece of
// megabytes how far it reaches (SplitPattern::certain_end, reach).
//
// Within a word of megabytes (letters without a space, a run of spaces, punctuation): merging is
// the same as going through the rules by rank and applying each from left to right, because earlier
// rules make the parts of a rule. Take two words that begin alike. At first their tokens, the
// bytes, agree up to the end of the beginning that they share. A rule can only shorten that by the
// last token in which they agree, if that is the rule's left part and its right part follows in one
// word only. So each rule takes back at most the bytes of its left part, and all tokens that end
// before the left parts of all rules together (168 KB with GPT-2's) are settled.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "tokenizer/split/split_pattern.h"

namespace weft {

class TextEncoder;
class Vocabulary;

// Carries from part to part the state of the piece that goes on, if one was begun.
struct BegunText {
  PieceState piece = kNoPiece;
};

class PartEncoder {
 public:
  // The vocabulary and the encoder must outlive this object.
  PartEncoder(const Vocabulary& vocabulary, TextEncoder& encoder);

  // Appends the ids of the beginning of `text` and returns the number of its bytes: all with
  // `is_last`, else at most 2 * num_unsettled_bytes() + 66 less. What is left begins the next part,
  // which ends between two characters, as this one. `text` is a text from its beginning, with a
  // `begun` that is empty, or goes on where the call before ended.
  template <typename Id>
  size_t encode(std::string_view text, bool is_last, BegunText& begun, std::vector<Id>& ids);

  // Tokens that end so many bytes before the end of what is known of a word are settled. There is
  // no such number, and so no limit, if a rule of the vocabulary stands before those that make its
  // parts.
  size_t num_unsettled_bytes() const { return num_unsettled_bytes_; }

 private:
  template <typename Id>
  size_t encode_settled(std::string_view word, std::vector<Id>& ids);

  const Vocabulary& vocabulary_;
  TextEncoder& encoder_;
  size_t num_unsettled_bytes_;
};

}  // namespace weft
