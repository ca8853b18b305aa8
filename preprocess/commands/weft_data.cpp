// weft-data: text corpora to Megatron datasets, and back from samples to text.
#include <malloc.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/process/out_of_memory.h"
#include "indexed_dataset/process/standard_streams.h"
#include "indexed_dataset/storage/bus_error.h"
#include "preprocess/commands/commands.h"
#include "preprocess/terminal/stop_signal.h"
#include "tokenizer/split/unicode_classes.h"

namespace {

using namespace weft;

// What was printed must have arrived, but for a reader that stopped early (`weft-data info |
// head`).
int exit_code_after_flush(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  if (code != 0 || errno == EPIPE) return code;
  const std::system_error error(errno, std::generic_category(), "cannot write to standard output");
  std::fprintf(stderr, "error: %s\n", error.what());
  return static_cast<int>(exit_code_for(error));
}

// Glibc raises the size from which it maps memory for a buffer alone up to 32 MiB when such buffers
// come and go; their places in the heaps stay taken. A fixed one keeps what threads have freed, of
// lines of megabytes, out of the run's memory: 8 workers took 820 MiB where now they take 700.
void give_large_buffers_back() {
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
  give_large_buffers_back();
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_download_command());
  commands.push_back(make_preprocess_command());
  commands.push_back(make_info_command());
  commands.push_back(make_verify_command());
  commands.push_back(make_repair_command());
  commands.push_back(make_report_command());
  commands.push_back(make_merge_command());
  commands.push_back(make_inspect_samples_command());
  commands.push_back(make_inspect_document_command());
  commands.push_back(make_train_vocab_command());
  commands.push_back(make_encode_command());
  try {
    return exit_code_after_flush(run_command_line(
        argc, argv, "Weft's data tools: text corpora to Megatron datasets, samples back to text.",
        "weft-data " WEFT_VERSION ", Unicode " + std::string(kUnicodeVersion), commands));
  } catch (const StoppedBySignal& stopped) {
    std::fprintf(stderr, "stopped by signal %d\n", stopped.signal);
    return 128 + stopped.signal;
  } catch (const std::bad_alloc& error) {
    std::fprintf(stderr, "error: out of memory\n");
    return static_cast<int>(exit_code_for(error));
  } catch (const std::exception& error) {
    const auto* system = dynamic_cast<const std::system_error*>(&error);
    if (system != nullptr && system->code().value() == EPIPE)
      return 0;  // `weft-data info x | head` saw enough
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(exit_code_for(error));
  }
}
