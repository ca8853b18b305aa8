// Runs a program of several commands: finds the one that is meant, parses its options, says what is
// wrong with them, and runs it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "indexed_dataset/base/terminal/option_set.h"

namespace weft {

// A sub-command of a program; one of a sub-command has a name of two words.
class Command {
 public:
  // The example is a command line as one would type it; the help, the man page and tests show it.
  Command(std::string name, std::string description, std::string example = "")
      : name_(std::move(name)),
        description_(std::move(description)),
        example_(std::move(example)) {}
  virtual ~Command() = default;
  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }
  const std::string& example() const { return example_; }
  virtual void declare(OptionSet& options) = 0;
  // Adds what is wrong with the options as a whole. Runs before run(), touches nothing but file
  // attributes.
  virtual void validate(OptionSet& options) const = 0;
  virtual int run(const OptionSet& options) = 0;  // the exit code

 private:
  std::string name_, description_, example_;
};

// Runs the command that the command line names, and says on standard error why it failed: all
// problems with its options at once, or what it threw. Help and version go to standard output.
// `completion bash`, `completion zsh` and `man`, which the help does not list, print what the
// installation needs. Returns the exit code: that of the command, that of its error (exit_code.h),
// or 128 + signal after StoppedBySignal. A reader of standard output that stops early (`weft-data
// info | head`) is no error. Never throws.
int run_program(int argc, const char* const* argv, const std::string& description,
                const std::string& version_text,
                const std::vector<std::unique_ptr<Command>>& commands);

}  // namespace weft
