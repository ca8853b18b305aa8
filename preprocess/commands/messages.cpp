#include "preprocess/commands/messages.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdio>
#include <new>
#include <system_error>

#include "indexed_dataset/process/exit_code.h"
#include "preprocess/terminal/terminal_text.h"

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

int print_error(const std::exception& error) {
  const bool is_out_of_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  const std::string what = is_out_of_memory ? "out of memory" : error.what();
  print_message("error: " + what + umask_hint(error));
  return static_cast<int>(exit_code_for(error));
}

void make_folder(const std::filesystem::path& folder, const std::string& option) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return;
  throw std::system_error(error, option + ": cannot make the folder '" + folder.string() + "'");
}

}  // namespace weft
