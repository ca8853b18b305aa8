// weft-data turns text corpora into Megatron datasets, and leads back from samples to text.
#include <malloc.h>

#include "indexed_dataset/base/storage/bus_error.h"
#include "indexed_dataset/base/terminal/command_line.h"
#include "preprocess/analyze/analyze_command.h"
#include "preprocess/commands/commands.h"
#include "preprocess/inspect/commands/commands.h"
#include "tokenizer/unicode/unicode_version.h"

namespace {

using namespace weft;

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
  explain_bus_errors();
  release_large_buffers();
  std::vector<std::unique_ptr<Command>> commands;
  for (const auto make_command :
       {make_download_command, make_preprocess_command, make_info_command, make_verify_command,
        make_repair_command, make_report_command, make_merge_command, make_index_command,
        make_train_vocab_command, make_encode_command, make_decode_command, make_analyze_command,
        make_tasks_command}) {
    commands.push_back(make_command());
  }
  for (auto& command : make_inspect_commands()) commands.push_back(std::move(command));
  return run_program(
      argc, argv, "Weft's data tools: text corpora to Megatron datasets, samples back to text.",
      "weft-data " WEFT_VERSION ", Unicode " + std::string(name_of(UnicodeVersion::k16)), commands);
}
