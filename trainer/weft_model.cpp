// weft-model writes text with finished models, turns checkpoints into Hugging Face folders and
// back, and compares them.
#include "indexed_dataset/base/storage/bus_error.h"
#include "indexed_dataset/base/terminal/command_line.h"
#include "trainer/evaluate/evaluate_command.h"
#include "trainer/generate/generate_command.h"
#include "trainer/model_tool/model_commands.h"

int main(int argc, char** argv) {
  weft::explain_bus_errors();
  std::vector<std::unique_ptr<weft::Command>> commands;
  commands.push_back(weft::make_export_command());
  commands.push_back(weft::make_import_command());
  commands.push_back(weft::make_diff_command());
  commands.push_back(weft::make_generate_command());
  commands.push_back(weft::make_evaluate_command());
  return weft::run_program(
      argc, argv,
      "Writes text with checkpoints and Hugging Face folders of GPT-2, BLOOM, LLaMA and others, scores, "
      "exports, imports and compares them.",
      "weft-model " WEFT_VERSION, commands);
}
