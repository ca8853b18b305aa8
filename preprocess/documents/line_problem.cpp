#include "preprocess/documents/line_problem.h"

namespace weft {

const char* describe(LineProblem problem) {
  switch (problem) {
    case LineProblem::kNone:
      return "";
    case LineProblem::kBlank:
      return "blank line";
    case LineProblem::kInvalidUtf8:
      return "invalid UTF-8";
    case LineProblem::kNotJson:
      return "not valid JSON";
    case LineProblem::kNotAnObject:
      return "not a JSON object";
    case LineProblem::kMissingKey:
      return "missing key";
    case LineProblem::kNotAString:
      return "not a string";
    case LineProblem::kTooLong:
      return "line too long";
    case LineProblem::kSpecialToken:
      return "special token in the text";
  }
  return "";
}

}  // namespace weft
