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
  std::vector<std::string> unread_flags;  // whose values are among the problems
  // The command line has a slip, such as an unknown flag: what the configuration lacks may follow
  // from it, and is not told.
  bool stopped_early = false;
  std::vector<std::string> notes;   // accepted flags that have no effect, with the reason
  std::optional<std::string> help;  // the text to print if --help or --version was asked for
  bool mock_data = false;           // --mock-data: the dataset is made up (plan/derived_options.h)
};

// Reads a command line (without the program's name). Never throws for what a user may type.
ParsedArguments parse_arguments(std::vector<std::string> arguments);

// Adds the problems of the configuration to those of the command line, but for those that only
// follow from a value that could not be read: the configuration has a default in its place.
void add_problems(ParsedArguments& parsed, const std::vector<std::string>& of_config);

}  // namespace weft
