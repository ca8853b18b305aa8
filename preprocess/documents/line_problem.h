// Why a line of JSON is no document.
#pragma once

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

struct LineOutcome {
  LineProblem problem = LineProblem::kNone;
  std::string detail;   // what exactly, "" if `problem` says it all
  size_t position = 0;  // byte in the line where it was noticed
};

}  // namespace weft
