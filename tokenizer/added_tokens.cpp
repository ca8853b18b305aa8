#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "tokenizer/unicode/char_classes.h"
#include "tokenizer/unicode/utf8.h"
#include "tokenizer/word_character.h"

namespace weft {
namespace {

// Bytes of the white space character that `text`, which is not empty, begins with; 0 if it begins
// with another one.
size_t space_bytes(std::string_view text) {
  const auto* const begin = reinterpret_cast<const uint8_t*>(text.data());
  const CodePoint c = code_point_at(begin, begin + text.size());
  const auto& classes = CharClasses::of(CharClasses::Version::k16);
  const bool is_space = c.value != kNotACodePoint && classes.class_of(c.value) == CharClass::kSpace;
  return is_space ? c.num_bytes : 0;
}

// Begin of the last character of a text that is not empty.
size_t last_char(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && text.size() - begin < 4 && is_continuation(static_cast<uint8_t>(text[begin])))
    --begin;
  return begin;
}

// End of the white space that `text` begins with.
size_t space_at_begin(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const size_t num_bytes = space_bytes(text.substr(end));
    if (num_bytes == 0) break;
    end += num_bytes;
  }
  return end;
}

// Begin of the white space that `text` ends with.
size_t space_at_end(std::string_view text) {
  while (!text.empty()) {
    const size_t last = last_char(text);
    if (space_bytes(text.substr(last)) == 0) break;
    text = text.substr(0, last);
  }
  return text.size();
}

// Without any token that is found, nothing has to be looked for.
std::vector<std::string> contents_of(const std::vector<AddedToken>& tokens,
                                     SpecialTokens special_tokens) {
  std::vector<std::string> contents;
  const bool finds_any = std::any_of(tokens.begin(), tokens.end(), [&](const AddedToken& token) {
    return !token.special || special_tokens != SpecialTokens::kLiteral;
  });
  if (!finds_any) return contents;
  for (const AddedToken& token : tokens) contents.push_back(token.content);
  return contents;
}

}  // namespace

SpecialTokenInText::SpecialTokenInText(std::string content)
    : std::runtime_error("the text contains " + content +
                         "; accept it as ordinary text or as the token "
                         "(--special literal or --special token)"),
      content_(std::move(content)) {}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, SpecialTokens special_tokens)
    : tokens_(std::move(tokens)),
      special_tokens_(special_tokens),
      contents_(contents_of(tokens_, special_tokens)) {
  if (empty()) return;
  for (const AddedToken& token : tokens_) forbid_cuts_inside(token);
}

void AddedTokens::cut(std::string_view text, std::vector<Piece>& pieces) const {
  size_t done = 0;  // begin of the text that is in no piece yet
  const auto add_text_until = [&](size_t end) {
    if (done < end) pieces.push_back({text.substr(done, end - done)});
  };
  LongestMatch::Search search(contents_, text);
  while (const auto match = search.next()) {
    const AddedToken& token = tokens_[match->string_idx];
    if (!counts(token, text, *match)) continue;
    size_t begin = match->begin, end = match->end;
    // The white space behind the token before may be taken already.
    if (token.lstrip) begin = std::max(space_at_end(text.substr(0, begin)), done);
    if (token.rstrip) end += space_at_begin(text.substr(end));
    add_text_until(begin);
    // One that stands in white space which the token before has taken is taken with it.
    if (begin < end) pieces.push_back({{}, token.id});
    done = end;
  }
  add_text_until(text.size());
}

bool AddedTokens::counts(const AddedToken& token, std::string_view text,
                         const LongestMatch::Match& at) const {
  if (token.special && special_tokens_ == SpecialTokens::kLiteral) return false;
  if (token.single_word) {
    const std::string_view before = text.substr(0, at.begin), behind = text.substr(at.end);
    if (!before.empty() && is_word_character(before.substr(last_char(before)))) return false;
    if (!behind.empty() && is_word_character(behind)) return false;
  }
  if (token.special && special_tokens_ == SpecialTokens::kError)
    throw SpecialTokenInText(token.content);
  return true;
}

bool AddedTokens::may_cut_between(char before, char behind) const {
  if (empty()) return true;
  const auto left = static_cast<uint8_t>(before), right = static_cast<uint8_t>(behind);
  return left < 128 && right < 128 && !forbidden_cuts_[left * size_t{128} + right];
}

void AddedTokens::forbid_cuts_inside(const AddedToken& token) {
  const auto forbid = [&](uint8_t before, uint8_t behind) {
    if (before < 128 && behind < 128) forbidden_cuts_.set(before * size_t{128} + behind);
  };
  const std::string_view content = token.content;
  for (size_t i = 1; i < content.size(); ++i)
    forbid(static_cast<uint8_t>(content[i - 1]), static_cast<uint8_t>(content[i]));
  const auto first = static_cast<uint8_t>(content.front()),
             last = static_cast<uint8_t>(content.back());
  for (int c = 0; c < 128; ++c) {
    const auto other = static_cast<uint8_t>(c);
    const char text[] = {static_cast<char>(c)};
    const bool is_space = space_bytes({text, 1}) > 0;
    if (token.single_word || (token.lstrip && is_space)) forbid(other, first);
    if (token.single_word || (token.rstrip && is_space)) forbid(last, other);
    if (!(token.lstrip || token.rstrip) || !is_space) continue;
    for (const char space : {' ', '\t', '\n', '\v', '\f', '\r'})
      forbid(other, static_cast<uint8_t>(space));
  }
}

}  // namespace weft
