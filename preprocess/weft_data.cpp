// weft-data: text corpora to Megatron datasets, and back from samples to text.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <system_error>

#include "indexed_dataset/exit_code.h"
#include "preprocess/commands.h"
#include "preprocess/stop_signal.h"
#include "tokenizer/unicode_classes.h"

int main(int argc, char** argv) {
  using namespace weft;
  // A log that nobody reads any more must not end hours of work: writes fail with EPIPE instead.
  std::signal(SIGPIPE, SIG_IGN);
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_download_command());
  commands.push_back(make_preprocess_command());
  commands.push_back(make_info_command());
  commands.push_back(make_verify_command());
  commands.push_back(make_inspect_samples_command());
  commands.push_back(make_train_vocab_command());
  try {
    return run_command_line(
        argc, argv, "Weft's data tools: text corpora to Megatron datasets, samples back to text.",
        "weft-data " WEFT_VERSION ", Unicode " + std::string(kUnicodeVersion), commands);
  } catch (const StoppedBySignal& stopped) {
    std::fprintf(stderr, "stopped by signal %d\n", stopped.signal);
    return 128 + stopped.signal;
  } catch (const std::exception& error) {
    const auto* system = dynamic_cast<const std::system_error*>(&error);
    if (system != nullptr && system->code().value() == EPIPE)
      return 0;  // `weft-data info x | head` saw enough
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(exit_code_for(error));
  }
}
