#include "kernels/algorithm_choices.h"

#include <sstream>
#include <stdexcept>

namespace weft {
namespace {
constexpr const char* kKind = "weft-gemm-algorithms ";
constexpr const char* kHeader = "weft-gemm-algorithms 1";
}  // namespace

AlgorithmChoices parse_algorithms(const std::string& text, const std::string& name) {
  AlgorithmChoices choices;
  if (text.empty()) return choices;
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != kHeader)
    throw std::runtime_error(name + ": not a table of GEMM algorithms (its first line is not '" +
                             kHeader + "'); name another file, or remove it to time anew");
  for (int number = 2; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    std::string key, value, rest;
    if (!(words >> key >> value) || words >> rest)
      throw std::runtime_error(name + ":" + std::to_string(number) +
                               ": not 'key value'; remove the file to time anew");
    choices.emplace(key, value);
  }
  return choices;
}

bool is_text_of_algorithms(const std::string& text) { return text.starts_with(kKind); }

std::string text_of(const AlgorithmChoices& choices) {
  if (choices.empty()) return "";
  std::string text = std::string(kHeader) + "\n";
  for (const auto& [key, value] : choices) text += key + " " + value + "\n";
  return text;
}

}  // namespace weft
