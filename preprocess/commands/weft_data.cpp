// weft-data turns text corpora into Megatron datasets, and leads back from samples to text.
#include <fmt/format.h>
#include <malloc.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <system_error>

#include "indexed_dataset/process/out_of_memory.h"
#include "indexed_dataset/process/standard_streams.h"
#include "indexed_dataset/process/stop_signal.h"
#include "indexed_dataset/storage/bus_error.h"
#include "preprocess/commands/commands.h"
#include "preprocess/commands/messages.h"
#include "tokenizer/split/unicode_classes.h"

namespace {

using namespace weft;

// Returns `code`, or that of an error if the output did not arrive, unless its reader stopped early
// (`weft-data info | head`).
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

// Fixes the size from which glibc maps a buffer by itself. Otherwise glibc raises it up to 32 MiB
// when such buffers come and go, and memory that threads have freed after lines of megabytes stays
// in the heaps: 8 workers took 820 MiB and now take 700.
void release_large_buffers() {
#ifdef M_MMAP_THRESHOLD
  ::mallopt(M_MMAP_THRESHOLD, 2 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 4 << 20);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  protect_standard_streams();
  explain_bus_errors();
  prepare_for_out_of_memory();
  release_large_buffers();
  std::vector<std::unique_ptr<Command>> commands;
  for (const auto make_command :
       {make_download_command, make_preprocess_command, make_info_command, make_verify_command,
        make_repair_command, make_report_command, make_merge_command, make_inspect_samples_command,
        make_inspect_document_command, make_train_vocab_command, make_encode_command}) {
    commands.push_back(make_command());
  }
  try {
    return exit_code_after_flush(run_command_line(
        argc, argv, "Weft's data tools: text corpora to Megatron datasets, samples back to text.",
        "weft-data " WEFT_VERSION ", Unicode " + std::string(kUnicodeVersion), commands));
  } catch (const StoppedBySignal& stopped) {
    print_message(fmt::format("stopped by signal {}", stopped.signal));
    return 128 + stopped.signal;
  } catch (const std::exception& error) {
    return is_reader_gone(error) ? 0 : print_error(error);
  }
}
