#include "indexed_dataset/base/terminal/messages.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <new>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {
namespace {

// "" unless a right is missing that the umask takes even from the owner of a new file.
std::string umask_hint(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system == nullptr || system->code() != std::errc::permission_denied) return "";
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if ((mask & 0700) == 0) return "";
  return fmt::format(
      "\n  the umask {:04o} takes rights from the owner of new files and folders: set it to 022",
      mask);
}

}  // namespace

void print_message(const std::string& message) {
  std::fprintf(stderr, "%s\n", escape_message(message).c_str());
}

std::string message_of(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? "out of memory" : error.what();
}

int print_error(const std::exception& error) {
  print_message("error: " + message_of(error) + umask_hint(error));
  return static_cast<int>(exit_code_for(error));
}

LiveLine::LiveLine() : is_terminal_(::isatty(STDERR_FILENO) == 1) {}

bool LiveLine::is_due() const {
  return std::chrono::steady_clock::now() - last_shown_ >
         (is_terminal_ ? std::chrono::milliseconds(200) : std::chrono::seconds(10));
}

void LiveLine::show(const std::string& line) {
  last_shown_ = std::chrono::steady_clock::now();
  clear();
  const std::string shown = escape_message(line);
  if (is_terminal_) {
    std::fputs(fit_to_terminal(shown, STDERR_FILENO).c_str(), stderr);
  } else {
    std::fprintf(stderr, "%s\n", shown.c_str());
  }
}

void LiveLine::clear() const {
  if (is_terminal_) std::fputs("\r\033[K", stderr);
}

}  // namespace weft
