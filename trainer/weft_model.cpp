// weft-model turns checkpoints into Hugging Face folders and back, and compares them.
#include "indexed_dataset/base/storage/bus_error.h"
#include "indexed_dataset/base/terminal/command_line.h"
#include "trainer/model_tool/model_commands.h"

int main(int argc, char** argv) {
  weft::explain_bus_errors();
  std::vector<std::unique_ptr<weft::Command>> commands;
  commands.push_back(weft::make_export_command());
  commands.push_back(weft::make_import_command());
  commands.push_back(weft::make_diff_command());
  return weft::run_program(
      argc, argv,
      "Exports checkpoints to Hugging Face folders of GPT-2, LLaMA and BLOOM, imports and compares them.",
      "weft-model " WEFT_VERSION, commands);
}
