// Prints what the commands say to people. Messages may quote names of files, in which anything can
// stand: all control characters are escaped. Nothing is thrown here: a log that cannot be written
// ends no run.
#pragma once

#include <exception>
#include <filesystem>
#include <string>

namespace weft {

// Prints a line on standard error.
void print_message(const std::string& message);

// Prints "error: ..." for an exception that ends the program, and returns its exit code.
int print_error(const std::exception& error);

// Makes a folder and those above it. Throws std::system_error whose message begins with `option`.
void make_folder(const std::filesystem::path& folder, const std::string& option);

}  // namespace weft
