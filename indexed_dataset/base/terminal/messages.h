// Prints what programs say to people. Messages may quote names of files, in which anything can
// stand: all control characters are escaped. Nothing is thrown here: a log that cannot be written
// ends no run.
#pragma once

#include <chrono>
#include <exception>
#include <string>

namespace weft {

// Prints a line on standard error.
void print_message(const std::string& message);

// Returns what is said of an exception that ends the program.
std::string message_of(const std::exception& error);

// Prints "error: ..." for an exception that ends the program, and returns its exit code.
int print_error(const std::exception& error);

// A line on standard error that says how far the work is: refreshed on a terminal, one every 10 s
// in a log. Its fields, separated by " | ", stand in the order of their weight.
class LiveLine {
 public:
  LiveLine();
  bool is_terminal() const { return is_terminal_; }
  // True when the next line may be shown.
  bool is_due() const;
  // Names of files in `line` are escaped, and on a terminal fields that do not fit are left out.
  void show(const std::string& line);
  // Makes room for another message; the line comes back with the next show().
  void clear() const;

 private:
  bool is_terminal_;
  std::chrono::steady_clock::time_point last_shown_ = std::chrono::steady_clock::now();
};

}  // namespace weft
