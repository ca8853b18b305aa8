#include "indexed_dataset/base/terminal/program.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <system_error>

#include "indexed_dataset/base/process/out_of_memory.h"
#include "indexed_dataset/base/process/standard_streams.h"
#include "indexed_dataset/base/process/stop_signal.h"
#include "indexed_dataset/base/process/test_hooks.h"
#include "indexed_dataset/base/terminal/messages.h"

namespace weft {
namespace {

// Returns `code`, or that of an error if the output did not arrive, unless its reader stopped
// early.
int exit_code_after_flush(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  if (code != 0 || errno == EPIPE) return code;
  return print_error(
      std::system_error(errno, std::generic_category(), "cannot write to standard output"));
}

// True if `error` is that the reader of our own output has seen enough. EPIPE from anywhere else,
// such as a socket, is an error.
bool is_reader_gone(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  return system != nullptr && system->code().value() == EPIPE &&
         (std::ferror(stdout) != 0 || std::ferror(stderr) != 0);
}

}  // namespace

int run_program(int argc, const char* const* argv, const std::string& description,
                const std::string& version_text,
                const std::vector<std::unique_ptr<Command>>& commands) {
  protect_standard_streams();
  prepare_for_out_of_memory();
  if (const std::string hooks = active_test_hooks(); !hooks.empty()) print_message(hooks);
  try {
    return exit_code_after_flush(run_command_line(argc, argv, description, version_text, commands));
  } catch (const StoppedBySignal& stopped) {
    print_message(fmt::format("stopped by signal {}", stopped.signal));
    return 128 + stopped.signal;
  } catch (const std::exception& error) {
    return is_reader_gone(error) ? 0 : print_error(error);
  }
}

}  // namespace weft
