#include "preprocess/inspect/report/report_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {
namespace {

// Spaces of all kinds, joiners and fillers: characters that a page shows as nothing. Control
// characters are among them.
bool is_without_ink(std::string_view character) {
  if (character.size() == 1) return static_cast<unsigned char>(character[0]) <= ' ';
  constexpr std::string_view kFew[] = {"\u00A0", "\u00AD", "\u115F", "\u1160", "\u1680",
                                       "\u180E", "\u202F", "\u205F", "\u2060", "\u2800",
                                       "\u3000", "\u3164", "\uFEFF", "\uFFA0"};
  const bool is_general_space = character >= "\u2000" && character <= "\u200F";
  return is_general_space || std::ranges::find(kFew, character) != std::end(kFew);
}

// Names a character so that it can be seen.
std::string visible_name(const std::string& character) {
  if (character == " ") return "\u2423";
  const std::string escaped = escape_for_terminal(character);
  if (escaped != character || !is_without_ink(character)) return escaped;
  uint32_t code_point = static_cast<uint8_t>(character[0]) & (0x7F >> character.size());
  for (size_t i = 1; i < character.size(); ++i)
    code_point = code_point << 6 | (static_cast<uint8_t>(character[i]) & 0x3F);
  return fmt::format("\\u{{{:X}}}", code_point);
}

}  // namespace

std::string first_characters(std::string_view text, size_t num_characters) {
  const std::string first = first_columns(std::string(text), num_characters);
  return first.size() < text.size() ? first + "..." : first;
}

std::string visible_beginning(const Beginning& beginning, size_t max_characters) {
  constexpr int64_t kShownEqual = 8;  // a longer run is written once
  std::string_view rest = beginning.text;
  std::string shown;
  int64_t num_first = beginning.num_equal;
  while (!rest.empty()) {
    const std::string first = first_columns(std::string(rest), 1);
    const std::string_view from_here = rest;
    int64_t count = 0;
    for (; rest.starts_with(first); rest.remove_prefix(first.size())) ++count;
    const bool may_go_on = rest.empty() && num_first == 0;
    count = std::max(count, std::exchange(num_first, 0));
    const std::string name = visible_name(first);
    if (count > kShownEqual) {
      if (!shown.empty() && !shown.ends_with(' ')) shown += " ";
      shown += name + " × " + grouped(count);
      if (may_go_on) shown += " or more";
      if (!rest.empty()) shown += " ";
    } else if (is_without_ink(first)) {
      for (int64_t i = 0; i < count; ++i) shown += name;
    } else {
      rest = from_here;
      break;
    }
  }
  return shown + escape_for_terminal(first_characters(rest, max_characters));
}

std::vector<std::string> findings_of(const DataReport& report) {
  const auto share_in_words = [&](int64_t num_documents, int64_t num_tokens) {
    return fmt::format(
        "{} of {} ({}; {} of the tokens)", grouped(num_documents),
        grouped(report.num_documents) + (report.num_documents == 1 ? " document" : " documents"),
        percent(share_of(num_documents, report.num_documents)),
        percent(share_of(num_tokens, report.num_tokens)));
  };
  const auto documents_in_words = [&](int64_t num_documents) {
    return fmt::format("{} of {} documents ({})", grouped(num_documents),
                       grouped(report.num_documents),
                       percent(share_of(num_documents, report.num_documents)));
  };
  const auto one_or_many = [](int64_t count, const char* one, const char* many) {
    return count == 1 ? one : many;
  };
  std::vector<std::string> findings;
  if (const int64_t count = report.num_repetitive_documents; count > 0) {
    findings.push_back(share_in_words(count, report.num_repetitive_tokens) +
                       one_or_many(count, " is", " are") +
                       " nearly all repetition: look at the most repeated characters and tokens, "
                       "and leave out what teaches nothing");
  }
  if (const int64_t count = report.duplicates.num_documents;
      share_of(count, report.num_documents) >= kSuspiciousShare) {
    findings.push_back(share_in_words(count, report.duplicates.num_tokens) +
                       one_or_many(count, " is an exact copy", " are exact copies") +
                       " of another one: a model reads these texts several times in an epoch");
  }
  if (const int64_t count = report.num_bad_lines.value_or(0); count > 0) {
    findings.push_back(fmt::format("{} {} of the corpus ({}) {} bad and gave no document",
                                   grouped(count), one_or_many(count, "line", "lines"),
                                   percent(share_of(count, count + report.num_documents)),
                                   one_or_many(count, "was", "were")));
  }
  if (const int64_t count = report.num_empty_documents;
      share_of(count, report.num_documents) >= kSuspiciousShare) {
    findings.push_back(documents_in_words(count) + one_or_many(count, " is", " are") +
                       " empty: preprocess --empty-docs skip leaves them out");
  }
  const int64_t num_with_tokens = report.num_documents - report.num_empty_documents;
  if (const int64_t count = report.num_without_end.value_or(0);
      count > 0 && count < num_with_tokens) {
    findings.push_back(documents_in_words(count) + one_or_many(count, " does", " do") +
                       " not end with the token that ends the others: these run on into the next "
                       "one in training");
  }
  if (const int64_t count = report.num_with_end_inside.value_or(0); count > 0) {
    findings.push_back(documents_in_words(count) + one_or_many(count, " holds", " hold") +
                       " the token that ends documents inside: in training each counts as several");
  }
  return findings;
}

std::string verdict_of(const DataReport& report) {
  const size_t count = findings_of(report).size();
  if (count == 0) return "nothing suspicious";
  return fmt::format("{} {}", count, count == 1 ? "finding" : "findings");
}

}  // namespace weft
