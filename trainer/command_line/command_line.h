// Reads the command line of weft-train into a Config.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace weft {

struct ParsedArguments {
  Config config;
  // Problems of the command line itself: unknown flags, values that are not numbers, ...
  std::vector<std::string> problems;
  std::vector<std::string> notes;   // accepted flags that have no effect, with the reason
  std::optional<std::string> help;  // the text to print if --help or --version was asked for
};

// Reads a command line (without the program's name). Never throws for what a user may type.
ParsedArguments parse_arguments(std::vector<std::string> arguments);

}  // namespace weft
