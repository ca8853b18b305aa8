#include "preprocess/documents/bad_lines.h"

#include <fmt/format.h>

#include <numeric>

#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {

const char* describe(LineProblem problem) {
  static constexpr std::array<const char*, kNumLineProblems> kNames = {
      "",
      "blank line",
      "invalid UTF-8",
      "not valid JSON",
      "not a JSON object",
      "missing key",
      "not a string",
      "line too long",
      "special token in the text",
  };
  return kNames.at(static_cast<size_t>(problem));
}

std::string BadLine::message() const {
  std::string text =
      unit == DocumentUnit::kRow ? fmt::format("{}: row {}{}: ", input, offset_bytes,
                                               counts_bytes_of_part ? " of this part" : "")
      : unit == DocumentUnit::kText
          ? fmt::format("{}: text {} (byte {}): ", input, line_number, offset_bytes)
      : counts_lines_of_part
          ? fmt::format("{}: line {} of this part (byte {} of {}): ", input, line_number,
                        offset_bytes, counts_bytes_of_part ? "the part" : "the file")
          : fmt::format("{}:{}: (byte {}) ", input, line_number, offset_bytes);
  text += describe(outcome.problem);
  if (!outcome.detail.empty()) text += ": " + outcome.detail;
  if (outcome.position > 0)
    text += fmt::format(", at byte {} of the {}", outcome.position,
                        unit == DocumentUnit::kLine ? "line" : "text");
  if (!hint.empty()) text += "; " + hint;
  return text;
}

void BadLineCounts::add(const BadLineCounts& other) {
  for (size_t i = 0; i < by_problem.size(); ++i) by_problem[i] += other.by_problem[i];
}

int64_t BadLineCounts::total() const {
  return std::accumulate(by_problem.begin(), by_problem.end(), int64_t{0});
}

std::string BadLineCounts::summary() const {
  std::string reasons;
  for (size_t i = 0; i < by_problem.size(); ++i) {
    if (by_problem[i] == 0) continue;
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", by_problem[i],
                           describe(static_cast<LineProblem>(i)));
  }
  std::string text = counted(total(), "bad line");
  if (!reasons.empty()) text += " (" + reasons + ")";
  return text;
}

}  // namespace weft
