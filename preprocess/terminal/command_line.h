// Runs a program of several commands: finds the one that is meant, parses its options, says what is
// wrong with them, and runs it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "preprocess/terminal/option_set.h"

namespace weft {

// A sub-command of a program.
class Command {
 public:
  virtual ~Command() = default;
  virtual std::string name() const = 0;  // two words for a sub-command of a sub-command
  virtual std::string description() const = 0;
  virtual void declare(OptionSet& options) = 0;
  // Adds what is wrong with the options as a whole. Runs before run(), touches nothing but file
  // attributes.
  virtual void validate(OptionSet& options) const = 0;
  virtual int run(const OptionSet& options) = 0;  // the exit code
};

// Parses, validates and runs one of `commands`. Returns the exit code; help and version go to
// standard output. Throws std::invalid_argument that lists every problem with the options, and
// whatever the command throws.
int run_command_line(int argc, const char* const* argv, const std::string& program_description,
                     const std::string& version_text,
                     const std::vector<std::unique_ptr<Command>>& commands);

// Returns the one of `names` that is nearest to `name` by edit distance; "" if none is near enough
// to be meant.
std::string nearest_name(const std::string& name, const std::vector<std::string>& names);

}  // namespace weft
