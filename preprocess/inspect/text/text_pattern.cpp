#include "preprocess/inspect/text/text_pattern.h"

#include <re2/re2.h>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {

TextPattern::TextPattern(const std::string& pattern, bool is_fixed) {
  if (pattern.empty()) throw UsageError("the pattern is empty: every text holds it");
  if (is_fixed) {
    fixed_ = pattern;
    return;
  }
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_never_capture(true);
  // The pattern is read alone first, so that the message shows it as it was given.
  const re2::RE2 alone(pattern, options);
  if (!alone.ok()) {
    throw UsageError("'" + pattern + "' is no regular expression: " + alone.error() +
                     "; --fixed-strings looks for it byte for byte");
  }
  expression_ = std::make_unique<const re2::RE2>("(?m)" + pattern, options);
  if (!expression_->ok()) throw UsageError("'" + pattern + "': " + expression_->error());
}

TextPattern::TextPattern(TextPattern&&) noexcept = default;
TextPattern::~TextPattern() = default;

bool TextPattern::is_in(std::string_view text) const {
  if (!expression_) return text.find(fixed_) != std::string_view::npos;
  return expression_->Match({text.data(), text.size()}, 0, text.size(), re2::RE2::UNANCHORED,
                            nullptr, 0);
}

std::optional<TextPattern::Match> TextPattern::find(std::string_view text, size_t from) const {
  if (from > text.size()) return std::nullopt;
  if (!expression_) {
    const size_t at = text.find(fixed_, from);
    if (at == std::string_view::npos) return std::nullopt;
    return Match{at, at + fixed_.size()};
  }
  re2::StringPiece match;
  if (!expression_->Match({text.data(), text.size()}, from, text.size(), re2::RE2::UNANCHORED,
                          &match, 1))
    return std::nullopt;
  const auto begin = static_cast<size_t>(match.data() - text.data());
  return Match{begin, begin + match.size()};
}

int64_t TextPattern::count(std::string_view text) const {
  int64_t count = 0;
  for (auto match = find(text); match; ++count) {
    size_t next = match->end;
    // Behind a match without a byte, such as an empty line, the search goes on with the next
    // character.
    if (match->begin == match->end) {
      ++next;
      while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xC0) == 0x80) ++next;
    }
    match = find(text, next);
  }
  return count;
}

std::optional<size_t> TextPattern::fixed_size() const {
  if (expression_) return std::nullopt;
  return fixed_.size();
}

}  // namespace weft
