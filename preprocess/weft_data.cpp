// weft-data: text corpora to Megatron datasets, and back from samples to text.
#include <cstdio>
#include <exception>

#include "indexed_dataset/exit_code.h"
#include "preprocess/commands.h"
#include "preprocess/stop_signal.h"
#include "tokenizer/unicode_classes.h"

int main(int argc, char** argv) {
  using namespace weft;
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
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(exit_code_for(error));
  }
}
