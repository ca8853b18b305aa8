#include "tokenizer/formats/known_patterns.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "tokenizer/formats/json_members.h"

namespace weft {
namespace {

using nlohmann::json;

// Regular expressions, with \r and \n for the characters themselves (DeepSeek's file has these).
#define CONTRACTIONS R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define LINES_AND_SPACES R"(\s*[\r\n]+|\s+(?!\S)|\s+)"
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define BEFORE_WORD R"([^\r\n\p{L}\p{N}]?)"
#define TEKKEN                                                 \
  BEFORE_WORD UPPER "*" LOWER "+|" BEFORE_WORD UPPER "+" LOWER \
                    R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" LINES_AND_SPACES

struct KnownPattern {
  SplitKind kind;
  bool has_no_gaps;  // its matches cover every text, so that removing the rest removes nothing
  std::string_view steps;  // of the pre-tokenizer, as `describe` writes them
};
// clang-format off
const KnownPattern kKnownPatterns[] = {
    {SplitKind::kGpt2, true, "ByteLevel(GPT-2)"},
    {SplitKind::kGpt2, true,
     R"(Split('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+) > ByteLevel)"},
    {SplitKind::kBloom, false, R"(Split( ?[^(\s|[.,!?…。，、।۔،])]+) > ByteLevel)"},
    {SplitKind::kCl100kOniguruma, true,
     R"(Split('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|)"
     R"(\s++$|\s*[\r\n]|\s+(?!\S)|\s) > ByteLevel)"},
    {SplitKind::kLlama3, true,
     "Split(" CONTRACTIONS "|" BEFORE_WORD R"(\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" LINES_AND_SPACES
     ") > ByteLevel"},
    {SplitKind::kQwen2, true,
     "Split(" CONTRACTIONS "|" BEFORE_WORD R"(\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" LINES_AND_SPACES
     ") > ByteLevel"},
    {SplitKind::kQwen35, true,
     "Split(" CONTRACTIONS "|" BEFORE_WORD R"([\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)"
     LINES_AND_SPACES ") > ByteLevel"},
    {SplitKind::kO200k, true,
     "Split(" BEFORE_WORD UPPER "*" LOWER "+" CONTRACTIONS "?|" BEFORE_WORD UPPER "+" LOWER "*" CONTRACTIONS
     R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" LINES_AND_SPACES ") > ByteLevel"},
    {SplitKind::kTekken, true, "Split(" TEKKEN ") > ByteLevel"},
    {SplitKind::kDeepSeekV3, false,
     R"(Split(\p{N}{1,3}) > Split([一-龥぀-ゟ゠-ヿ]+) > )"
     R"(Split([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
     R"( ?[\p{P}\p{S}]+[\r\n]*|)" LINES_AND_SPACES ") > ByteLevel"},
    {SplitKind::kStarCoder, false, "Digits(individual) > ByteLevel(GPT-2)"},
    {SplitKind::kFalcon, false,
     "Punctuation(Contiguous) > ByteLevel(GPT-2) > Digits > Split([0-9][0-9][0-9])"},
};
// clang-format on
constexpr std::string_view kTekkenRegex = TEKKEN;
#undef CONTRACTIONS
#undef LINES_AND_SPACES
#undef UPPER
#undef LOWER
#undef BEFORE_WORD
#undef TEKKEN

std::string with_escaped_lines(std::string_view regex) {
  std::string text;
  for (const char c : regex) {
    if (c == '\r' || c == '\n') {
      text += c == '\r' ? "\\r" : "\\n";
    } else {
      text += c;
    }
  }
  return text;
}

// One line that says all that decides about pieces: "Split(REGEX) > ByteLevel".
class PreTokenizerText {
 public:
  explicit PreTokenizerText(const std::string& file) : file_(file) {}

  void add(const json& step) {
    const std::string type = text_of(step, "type");
    if (type == "Sequence") {
      for (const json& part : member(step, "pretokenizers")) add(part);
      return;
    }
    if (!text.empty()) text += " > ";
    text += describe(type, step);
  }

  std::string text = {};
  bool removes_gaps = false;

 private:
  std::string describe(const std::string& type, const json& step) {
    if (type == "ByteLevel") {
      if (flag_of(step, "add_prefix_space", true)) {
        throw std::runtime_error(file_ +
                                 ": its ByteLevel puts a space before every text "
                                 "(add_prefix_space), which is not supported");
      }
      has_bytes_ = true;
      return flag_of(step, "use_regex", true) ? "ByteLevel(GPT-2)" : type;
    }
    if (type == "Digits")
      return flag_of(step, "individual_digits", false) ? "Digits(individual)" : type;
    if (type == "Punctuation") {
      const std::string behavior = text_of(step, "behavior");
      return type + "(" + (behavior.empty() ? "Isolated" : behavior) + ")";
    }
    return type == "Split" ? describe_split(step) : type;
  }
  std::string describe_split(const json& step) {
    const json& pattern = member(step, "pattern");
    const std::string regex = text_of(pattern, "Regex");
    const std::string behavior = text_of(step, "behavior");
    const bool is_inverted = flag_of(step, "invert", false);
    const std::string written =
        with_escaped_lines(regex.empty() ? "text " + text_of(pattern, "String") : regex);
    if (behavior == "Removed" && is_inverted) removes_gaps = true;
    if ((behavior == "Isolated" && !is_inverted) || removes_gaps) return "Split(" + written + ")";
    return "Split(" + written + ", " + behavior + (is_inverted ? ", inverted" : "") + ")";
  }

  const std::string& file_;
  bool has_bytes_ = false;
};

// A step of kKnownPatterns as tokenizer.json has it: the inverse of PreTokenizerText.
nlohmann::ordered_json step_of_text(std::string_view step) {
  if (step.starts_with("ByteLevel")) return byte_level_step(step != "ByteLevel");
  if (step.starts_with("Digits"))
    return {{"type", "Digits"}, {"individual_digits", step != "Digits"}};
  if (step == "Punctuation(Contiguous)")
    return {{"type", "Punctuation"}, {"behavior", "Contiguous"}};
  constexpr std::string_view kSplit = "Split(";
  const std::string_view regex = step.substr(kSplit.size(), step.size() - kSplit.size() - 1);
  return {{"type", "Split"},
          {"pattern", {{"Regex", regex}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

}  // namespace

std::string_view name_of(SplitKind kind) {
  switch (kind) {
    case SplitKind::kGpt2:
      return "gpt2";
    case SplitKind::kBloom:
      return "bloom";
    case SplitKind::kCl100k:
      return "cl100k";
    case SplitKind::kCl100kOniguruma:
      return "cl100k-oniguruma";
    case SplitKind::kLlama3:
      return "llama3";
    case SplitKind::kQwen2:
      return "qwen2";
    case SplitKind::kMegatronV1:
      return "megatron-v1";
    case SplitKind::kQwen35:
      return "qwen3.5";
    case SplitKind::kO200k:
      return "o200k";
    case SplitKind::kTekken:
      return "tekken";
    case SplitKind::kDeepSeekV3:
      return "deepseek-v3";
    case SplitKind::kStarCoder:
      return "starcoder";
    case SplitKind::kFalcon:
      return "falcon";
  }
  throw std::logic_error("name_of: not a kind of pattern");
}

SplitKind pattern_of_pre_tokenizer(const json& pre_tokenizer, const std::string& file) {
  PreTokenizerText found(file);
  if (!pre_tokenizer.is_null()) found.add(pre_tokenizer);
  if (found.text.find("ByteLevel") == std::string::npos) {
    throw std::runtime_error(file + ": not a byte-level BPE: its pre_tokenizer is " +
                             (found.text.empty() ? "missing" : found.text) +
                             ", without ByteLevel (SentencePiece and BERT are so); use a model "
                             "with a byte-level tokenizer");
  }
  for (const KnownPattern& known : kKnownPatterns) {
    if (found.text == known.steps && (known.has_no_gaps || !found.removes_gaps)) return known.kind;
  }
  throw std::runtime_error(file +
                           ": its pre_tokenizer is not a known one, and ids by another would "
                           "differ. It is: " +
                           found.text +
                           (found.removes_gaps ? " (what does not match is removed)" : "") +
                           "; tokenizer/README.md lists those that are known");
}

nlohmann::ordered_json byte_level_step(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

nlohmann::ordered_json pre_tokenizer_of(SplitKind kind) {
  const auto* const known =
      std::find_if(std::begin(kKnownPatterns), std::end(kKnownPatterns),
                   [kind](const KnownPattern& pattern) { return pattern.kind == kind; });
  if (known == std::end(kKnownPatterns)) {
    throw std::invalid_argument("no tokenizer.json has the pattern " + std::string(name_of(kind)));
  }
  auto steps = nlohmann::ordered_json::array();
  constexpr std::string_view kArrow = " > ";
  for (std::string_view rest = known->steps; !rest.empty();) {
    const size_t size = std::min(rest.find(kArrow), rest.size());
    steps.push_back(step_of_text(rest.substr(0, size)));
    rest.remove_prefix(std::min(size + kArrow.size(), rest.size()));
  }
  if (steps.size() == 1) return steps[0];
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

SplitKind pattern_named(std::string_view name) {
  for (const KnownPattern& known : kKnownPatterns) {
    if (name_of(known.kind) == name) return known.kind;
  }
  throw std::invalid_argument("there is no pattern '" + std::string(name) +
                              "' for a tokenizer.json, only " + names_of_patterns());
}

std::string names_of_patterns() {
  std::string names;
  std::string_view last;
  for (const KnownPattern& known : kKnownPatterns) {
    const std::string_view name = name_of(known.kind);
    if (name == last) continue;
    if (!names.empty()) names += ", ";
    names += name;
    last = name;
  }
  return names;
}

bool is_tekken_pattern(std::string_view regex) { return regex == kTekkenRegex; }

}  // namespace weft
