#include "tests/tokenizer/pattern_interpreter.h"

#include <functional>
#include <map>
#include <stdexcept>
#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/unicode/char_classes.h"
#include "tokenizer/unicode/utf8.h"

namespace weft::test {
namespace {

using Text = std::u32string_view;
using Predicate = std::function<bool(char32_t)>;
using Continue = std::function<bool(size_t)>;

// Stands for a byte that is not UTF-8: no class has it.
constexpr char32_t kFirstBadByte = 0x110000;

CharClass class_of(char32_t c, CharClasses::Version version) {
  return c < kFirstBadByte ? CharClasses::of(version).class_of(c) : CharClass::kOther;
}

Predicate property(const std::string& name, CharClasses::Version version) {
  using enum CharClass;
  const std::vector<CharClass> wanted = name == "L"    ? std::vector{kUpper, kLower, kCaseless}
                                        : name == "N"  ? std::vector{kNumber}
                                        : name == "M"  ? std::vector{kMark}
                                        : name == "P"  ? std::vector{kPunctuation}
                                        : name == "S"  ? std::vector{kSymbol}
                                        : name == "s"  ? std::vector{kSpace}
                                        : name == "Lu" ? std::vector{kUpper}
                                        : name == "Ll" ? std::vector{kLower}
                                        : name == "Lo" ? std::vector{kCaseless}
                                                       : std::vector<CharClass>{};
  // Lu and Lt, and Lo and Lm, always stand together in the patterns: the classes keep them
  // together.
  if (wanted.empty() && name != "Lt" && name != "Lm") throw std::logic_error("no property " + name);
  return [wanted, version](char32_t c) {
    const CharClass char_class = class_of(c, version);
    for (const CharClass w : wanted) {
      if (char_class == w) return true;
    }
    return false;
  };
}

// U+017F and U+212A are the only characters that fold to an ASCII letter of the patterns.
char32_t folded(char32_t c) {
  if (c >= 'A' && c <= 'Z') return c + 0x20;
  return c == 0x17F ? 's' : c == 0x212A ? 'k' : c;
}

}  // namespace

// Calls `go_on` with each end that it can have at `at`, in the order of the engine's preference,
// until one is accepted.
struct Regex::Node {
  virtual ~Node() = default;
  virtual bool match(Text text, size_t at, const Continue& go_on) const = 0;
};

namespace {

using NodePtr = std::shared_ptr<const Regex::Node>;

struct OneChar : Regex::Node {
  explicit OneChar(Predicate accepted) : is_in(std::move(accepted)) {}
  bool match(Text text, size_t at, const Continue& go_on) const override {
    return at < text.size() && is_in(text[at]) && go_on(at + 1);
  }
  Predicate is_in;
};

struct Sequence : Regex::Node {
  bool match_from(size_t i, Text text, size_t at, const Continue& go_on) const {
    if (i == parts.size()) return go_on(at);
    return parts[i]->match(text, at,
                           [&](size_t next) { return match_from(i + 1, text, next, go_on); });
  }
  bool match(Text text, size_t at, const Continue& go_on) const override {
    return match_from(0, text, at, go_on);
  }
  std::vector<NodePtr> parts;
};

struct Alternatives : Regex::Node {
  bool match(Text text, size_t at, const Continue& go_on) const override {
    for (const NodePtr& alternative : alternatives) {
      if (alternative->match(text, at, go_on)) return true;
    }
    return false;
  }
  std::vector<NodePtr> alternatives;
};

struct Repeat : Regex::Node {
  Repeat(NodePtr repeated, size_t fewest, size_t limit)
      : what(std::move(repeated)), least(fewest), most(limit) {}
  bool match_more(size_t count, Text text, size_t at, const Continue& go_on) const {
    if (count < most && what->match(text, at, [&](size_t next) {
          return next > at && match_more(count + 1, text, next, go_on);
        })) {
      return true;
    }
    return count >= least && go_on(at);
  }
  bool match(Text text, size_t at, const Continue& go_on) const override {
    return match_more(0, text, at, go_on);
  }
  NodePtr what;
  size_t least, most;
};

struct Possessive : Regex::Node {
  explicit Possessive(NodePtr kept) : what(std::move(kept)) {}
  bool match(Text text, size_t at, const Continue& go_on) const override {
    size_t end = 0;
    const bool matches = what->match(text, at, [&](size_t found) {
      end = found;
      return true;
    });
    return matches && go_on(end);
  }
  NodePtr what;
};

struct NotFollowedBy : Regex::Node {
  explicit NotFollowedBy(NodePtr unwanted) : what(std::move(unwanted)) {}
  bool match(Text text, size_t at, const Continue& go_on) const override {
    return !what->match(text, at, [](size_t) { return true; }) && go_on(at);
  }
  NodePtr what;
};

struct End : Regex::Node {
  explicit End(Engine of) : engine(of) {}
  bool match(Text text, size_t at, const Continue& go_on) const override {
    const bool is_end = at == text.size() || (engine == Engine::kOniguruma && text[at] == '\n');
    return is_end && go_on(at);
  }
  Engine engine;
};

class Parser {
 public:
  Parser(Text pattern, Engine engine, CharClasses::Version version)
      : rest_(pattern), engine_(engine), version_(version) {}

  NodePtr parse() {
    NodePtr node = parse_alternatives(false);
    if (!rest_.empty()) throw std::logic_error("a pattern is not read to its end");
    return node;
  }

 private:
  bool take(Text wanted) {
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(wanted.size());
    return true;
  }
  char32_t next() {
    if (rest_.empty()) throw std::logic_error("a pattern ends early");
    const char32_t c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  NodePtr parse_alternatives(bool ignore_case) {
    auto node = std::make_shared<Alternatives>();
    do {
      auto sequence = std::make_shared<Sequence>();
      while (!rest_.empty() && rest_.front() != '|' && rest_.front() != ')')
        sequence->parts.push_back(parse_repeated(ignore_case));
      node->alternatives.push_back(sequence);
    } while (take(U"|"));
    return node;
  }

  NodePtr parse_repeated(bool ignore_case) {
    NodePtr node = parse_atom(ignore_case);
    bool has_braces = false;
    if (take(U"?")) {
      node = std::make_shared<Repeat>(node, 0, 1);
    } else if (take(U"*")) {
      node = std::make_shared<Repeat>(node, 0, SIZE_MAX);
    } else if (take(U"+")) {
      node = std::make_shared<Repeat>(node, 1, SIZE_MAX);
    } else if (take(U"{1,3}")) {
      node = std::make_shared<Repeat>(node, 1, 3);
      has_braces = true;
    } else {
      return node;
    }
    if (!take(U"+")) return node;
    if (has_braces && engine_ == Engine::kOniguruma)
      return std::make_shared<Repeat>(node, 1, SIZE_MAX);
    return std::make_shared<Possessive>(node);
  }

  NodePtr parse_atom(bool ignore_case) {
    if (take(U"(?!")) return std::make_shared<NotFollowedBy>(parse_group(ignore_case));
    if (take(U"(?i:")) return parse_group(true);
    if (take(U"(?:")) return parse_group(ignore_case);
    if (take(U"[")) return std::make_shared<OneChar>(parse_class(ignore_case));
    if (take(U"$")) return std::make_shared<End>(engine_);
    return std::make_shared<OneChar>(parse_char(ignore_case));
  }

  NodePtr parse_group(bool ignore_case) {
    NodePtr node = parse_alternatives(ignore_case);
    if (!take(U")")) throw std::logic_error("a group is not closed");
    return node;
  }

  // A character, or an escape.
  Predicate parse_char(bool ignore_case) {
    const char32_t c = next();
    if (c != '\\') {
      if (ignore_case) return [c](char32_t other) { return folded(other) == folded(c); };
      return [c](char32_t other) { return other == c; };
    }
    const char32_t escaped = next();
    if (escaped == 'r') return [](char32_t other) { return other == '\r'; };
    if (escaped == 'n') return [](char32_t other) { return other == '\n'; };
    if (escaped == 's') return property("s", version_);
    if (escaped == 'S') {
      return [is_space = property("s", version_)](char32_t other) { return !is_space(other); };
    }
    if (escaped == 'p') {
      std::string name;
      for (take(U"{"); !take(U"}");) name += static_cast<char>(next());
      return property(name, version_);
    }
    return [escaped](char32_t other) { return other == escaped; };
  }

  // Behind its `[`. A class may hold classes, as in Oniguruma.
  Predicate parse_class(bool ignore_case) {
    const bool is_negated = take(U"^");
    std::vector<Predicate> members;
    while (!take(U"]")) {
      if (take(U"[")) {
        members.push_back(parse_class(ignore_case));
      } else if (rest_.size() > 2 && rest_[0] != '\\' && rest_[1] == '-' && rest_[2] != ']') {
        const char32_t first = next();
        next();
        const char32_t last = next();
        members.push_back([first, last](char32_t c) { return c >= first && c <= last; });
      } else {
        members.push_back(parse_char(ignore_case));
      }
    }
    return [members, is_negated](char32_t c) {
      for (const Predicate& member : members) {
        if (member(c)) return !is_negated;
      }
      return is_negated;
    };
  }

  Text rest_;
  Engine engine_;
  CharClasses::Version version_;
};

std::u32string decoded(std::string_view text) {
  const auto* p = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* const end = p + text.size();
  std::u32string result;
  while (p < end) {
    const CodePoint c = code_point_at(p, end);
    result += c.value == kNotACodePoint ? kFirstBadByte + *p : c.value;
    p += c.num_bytes;
  }
  return result;
}

std::string encoded(Text text) {
  std::string result;
  for (const char32_t c : text) {
    if (c < kFirstBadByte) {
      append_utf8(c, result);
    } else {
      result += static_cast<char>(c - kFirstBadByte);
    }
  }
  return result;
}

using Pieces = std::vector<std::u32string>;
using Step = std::function<void(Text piece, Pieces& out)>;

// Split with behavior Isolated: what lies between matches is a piece, too.
Step split(Text pattern, Engine engine = Engine::kOniguruma,
           UnicodeVersion version = UnicodeVersion::k16) {
  return [regex = Regex(pattern, engine, version)](Text piece, Pieces& out) {
    size_t gap = 0;
    const auto close_gap = [&](size_t end) {
      if (gap < end) out.emplace_back(piece.substr(gap, end - gap));
    };
    for (size_t at = 0; at < piece.size();) {
      const size_t end = regex.match(piece, at);
      if (end == Text::npos || end == at) {
        ++at;
        continue;
      }
      close_gap(at);
      out.emplace_back(piece.substr(at, end - at));
      gap = at = end;
    }
    close_gap(piece.size());
  };
}

// Characters that `is_in` accepts are pieces, each of its own or in runs.
Step isolate(const Predicate& is_in, bool in_runs) {
  return [is_in, in_runs](Text piece, Pieces& out) {
    for (size_t i = 0; i < piece.size(); ++i) {
      const bool joins =
          i > 0 && is_in(piece[i]) == is_in(piece[i - 1]) && (in_runs || !is_in(piece[i]));
      if (!joins) out.emplace_back();
      out.back() += piece[i];
    }
  };
}

Predicate has_class(CharClass wanted, CharClasses::Version version) {
  return [wanted, version](char32_t c) { return class_of(c, version) == wanted; };
}

// From here on a step sees the printable alphabet of the bytes.
Step byte_level() {
  return [](Text piece, Pieces& out) { out.push_back(decoded(to_printable(encoded(piece)))); };
}

constexpr Text kGpt2 =
    UR"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr Text kCl100k =
    UR"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)";
constexpr Text kO200kWords =
    UR"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)";
constexpr Text kO200kUpper =
    UR"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)";
constexpr Text kContractions = UR"((?i:'s|'t|'re|'ve|'m|'ll|'d))";

std::u32string llama3_like(Text words, Text numbers, Text others) {
  return std::u32string(kContractions) + UR"(|[^\r\n\p{L}\p{N}]?)" + std::u32string(words) + U"+|" +
         std::u32string(numbers) + U"| ?" + std::u32string(others) +
         UR"(+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

std::u32string o200k_like(Text contractions, Text numbers) {
  return std::u32string(kO200kWords) + std::u32string(contractions) + U"|" +
         std::u32string(kO200kUpper) + std::u32string(contractions) + U"|" +
         std::u32string(numbers) + UR"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

std::vector<Step> steps_of(SplitKind kind, UnicodeVersion version) {
  using Version = CharClasses::Version;
  switch (kind) {
    case SplitKind::kGpt2:
      return {split(kGpt2, Engine::kOniguruma, version)};
    case SplitKind::kBloom:
      return {split(U" ?[^(\\s|[.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C])]+")};
    case SplitKind::kCl100k:
      return {split(kCl100k, Engine::kFancyRegex)};
    case SplitKind::kCl100kOniguruma:
      return {split(kCl100k, Engine::kOniguruma)};
    case SplitKind::kLlama3:
      return {split(llama3_like(UR"(\p{L})", UR"(\p{N}{1,3})", UR"([^\s\p{L}\p{N}])"))};
    case SplitKind::kQwen2:
      return {split(llama3_like(UR"(\p{L})", UR"(\p{N})", UR"([^\s\p{L}\p{N}])"))};
    case SplitKind::kMegatronV1:
      return {split(
          UR"([^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
          Engine::kFancyRegex)};
    case SplitKind::kQwen35:
      return {split(llama3_like(UR"([\p{L}\p{M}])", UR"(\p{N})", UR"([^\s\p{L}\p{M}\p{N}])"))};
    case SplitKind::kO200k:
      return {split(o200k_like(std::u32string(kContractions) + U"?", UR"(\p{N}{1,3})"))};
    case SplitKind::kTekken:
      return {split(o200k_like(U"", UR"(\p{N})"))};
    case SplitKind::kDeepSeekV3:
      return {
          split(UR"(\p{N}{1,3})"), split(U"[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+"),
          split(
              UR"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};
    case SplitKind::kStarCoder:
      return {isolate(has_class(CharClass::kNumber, Version::kNumbersOf17), false), split(kGpt2)};
    case SplitKind::kFalcon:
      return {isolate(has_class(CharClass::kPunctuation, Version::kPunctuationOf8), true),
              split(kGpt2), byte_level(),
              isolate(has_class(CharClass::kNumber, Version::kNumbersOf17), true),
              split(U"[0-9][0-9][0-9]")};
  }
  throw std::logic_error("no such kind");
}

}  // namespace

Regex::Regex(std::u32string_view pattern, Engine engine, UnicodeVersion version)
    : root_(Parser(pattern, engine,
                   version == UnicodeVersion::k15 ? CharClasses::Version::k15
                                                  : CharClasses::Version::k16)
                .parse()) {}

size_t Regex::match(std::u32string_view text, size_t begin) const {
  size_t end = std::u32string_view::npos;
  root_->match(text, begin, [&](size_t found) {
    end = found;
    return true;
  });
  return end;
}

std::vector<std::string> interpreted_pieces(SplitKind kind, std::string_view text,
                                            UnicodeVersion version) {
  Pieces pieces = {decoded(text)};
  if (text.empty()) return {};
  static std::map<std::pair<SplitKind, UnicodeVersion>, std::vector<Step>> known;
  std::vector<Step>& steps = known[{kind, version}];
  if (steps.empty()) steps = steps_of(kind, version);
  for (const Step& step : steps) {
    Pieces next;
    for (const std::u32string& piece : pieces) step(piece, next);
    pieces = std::move(next);
  }
  std::vector<std::string> result;
  for (const std::u32string& piece : pieces) {
    const std::string bytes = encoded(piece);
    result.push_back(kind == SplitKind::kFalcon ? *from_printable(bytes) : bytes);
  }
  return result;
}

}  // namespace weft::test
