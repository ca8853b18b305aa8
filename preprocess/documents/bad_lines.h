// Lines that are no documents: why, how many for each reason, and the first ones as messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace weft {

enum class LineProblem : uint8_t {
  kNone,
  kBlank,
  kInvalidUtf8,
  kNotJson,
  kNotAnObject,
  kMissingKey,
  kNotAString,
  kTooLong,
  kSpecialToken,
};
constexpr int kNumLineProblems = 9;

// "not valid JSON" and so on; kNone gives "".
const char* describe(LineProblem problem);

// What code must know beyond the problem.
enum class LineReason : uint8_t { kNone, kNestedTooDeeply };

struct LineOutcome {
  LineProblem problem = LineProblem::kNone;
  std::string detail;   // what exactly, "" if `problem` says it all
  size_t position = 0;  // byte in the line where it was noticed
  LineReason reason = LineReason::kNone;
};

// The kind of documents that an input has; messages count them. A line of plain text is a line as
// well.
enum class DocumentUnit : uint8_t { kLine, kRow, kText };

// The first so many are shown: enough to see the pattern, few enough for a log.
constexpr int kNumShownBadLines = 10;

struct BadLine {
  std::string input;         // display name
  int64_t line_number = 0;   // from 1
  int64_t offset_bytes = 0;  // of the line, in the decompressed stream
  LineOutcome outcome;
  std::string hint{};  // what to do about it, "" if nothing is known
  // In a part of the work (--shard) that begins within the input lines are counted from there, and
  // bytes as well if the input is compressed.
  bool counts_lines_of_part = false, counts_bytes_of_part = false;
  DocumentUnit unit = DocumentUnit::kLine;  // of a row, `offset_bytes` is its number, from 0

  // FILE:LINE: (byte OFFSET) REASON: DETAIL, at byte N of the line; HINT
  // or FILE: line LINE of this part (byte OFFSET of the file, or part): REASON ...
  // or FILE: row OFFSET (of this part): REASON ...
  // or FILE: text LINE (byte OFFSET): REASON ..., at byte N of the text
  std::string message() const;
};

struct BadLineCounts {
  std::array<int64_t, kNumLineProblems> by_problem{};

  void add(LineProblem problem) { ++by_problem[static_cast<size_t>(problem)]; }
  void add(const BadLineCounts& other);
  int64_t total() const;
  // "3 bad lines (2 not valid JSON, 1 blank line)" or "0 bad lines".
  std::string summary() const;
};

}  // namespace weft
