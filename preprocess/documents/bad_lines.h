// Lines that are no documents: why, how many for each reason, and the first ones as messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

  // FILE:LINE: (byte OFFSET) REASON: DETAIL, at byte N of the line; HINT
  // or FILE: line LINE of this part (byte OFFSET of the file, or part): REASON ...
  std::string message() const;
};

// Says what a line that is no document seems to be instead, and what to do about it: fills in the
// hint of a bad line that will be shown, and for invalid UTF-8 where it is (bad_line_hint.cpp).
// `text` begins with `line` and goes on with what has been read behind it, because binary files
// have line ends anywhere. All bytes are untrusted; those that are shown are escaped for terminals.
void explain_bad_line(BadLine& bad_line, std::string_view text, std::string_view line,
                      const std::vector<std::string>& keys);

struct BadLineCounts {
  std::array<int64_t, kNumLineProblems> by_problem{};

  void add(LineProblem problem) { ++by_problem[static_cast<size_t>(problem)]; }
  void add(const BadLineCounts& other);
  int64_t total() const;
  // "3 bad lines (2 not valid JSON, 1 blank line)" or "0 bad lines".
  std::string summary() const;
};

}  // namespace weft
