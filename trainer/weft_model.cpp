// weft-model turns checkpoints into Hugging Face folders and back, and compares them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <tuple>

#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/process/nearest_name.h"
#include "indexed_dataset/process/standard_streams.h"
#include "indexed_dataset/storage/bus_error.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/compare_checkpoints.h"
#include "trainer/checkpoint/hf_gpt2.h"

namespace {

namespace fs = std::filesystem;
using weft::ExitCode;

// Returns --ckpt-step, else the checkpoint that weft-train would resume from.
int64_t chosen_iteration(const fs::path& folder, int64_t ckpt_step) {
  if (ckpt_step >= 0) return ckpt_step;
  const auto choice = weft::choose_checkpoint(folder);
  if (!choice) {
    throw std::runtime_error(
        folder.string() +
        " holds no checkpoint (no latest_checkpointed_iteration.txt); is it a --save folder?");
  }
  for (const std::string& warning : choice->warnings)
    std::fprintf(stderr, "WARNING: %s\n", warning.c_str());
  return choice->iteration;
}

struct ExportCommand {
  weft::HfExport options;
  int64_t ckpt_step = -1;
  std::string dtype = "float32";
  bool no_tokenizer = false;

  void declare(CLI::App& app) {
    app.add_option("--load", options.load, "checkpoint folder (weft-train's --save)")->required();
    app.add_option("--output", options.output,
                   "folder to write: config.json, model.safetensors, tokenizer files")
        ->required();
    app.add_option("--ckpt-step", ckpt_step, "iteration to export; default: the latest");
    app.add_option("--dtype", dtype, "type of the weights")
        ->check(CLI::IsMember({"float32", "bfloat16"}))
        ->capture_default_str();
    app.add_option("--vocab-file", options.vocab_file,
                   "vocab.json; default: the one that the model's data was made with");
    app.add_option("--merge-file", options.merge_file, "merges.txt, with --vocab-file");
    app.add_flag("--no-tokenizer", no_tokenizer, "write no tokenizer files");
    app.add_flag("--overwrite", options.overwrite, "replace an older export in --output");
  }

  // The tokenizer's files must be those of the model. An export without them must be asked for.
  void find_vocabulary() {
    if (options.vocab_file.empty() != options.merge_file.empty()) {
      throw std::invalid_argument("--vocab-file and --merge-file belong together");
    }
    if (no_tokenizer) {
      options.vocab_file = options.merge_file = "";
      return;
    }
    if (!options.vocab_file.empty()) return;
    std::tie(options.vocab_file, options.merge_file) =
        weft::find_tokenizer_files(weft::read_checkpoint_info(options.load, options.iteration));
  }

  void run() {
    options.dtype = dtype == "float32" ? weft::DType::kFloat32 : weft::DType::kBFloat16;
    options.iteration = chosen_iteration(options.load, ckpt_step);
    find_vocabulary();
    weft::export_hf_gpt2(options);
    std::printf("exported iteration %lld of %s to %s\n", static_cast<long long>(options.iteration),
                options.load.c_str(), options.output.c_str());
  }
};

struct ImportCommand {
  weft::HfImport options;

  void declare(CLI::App& app) {
    app.add_option("--input", options.input,
                   "Hugging Face GPT-2 folder: config.json, model.safetensors")
        ->required();
    app.add_option("--save", options.save,
                   "checkpoint folder to write iteration 0 to; weft-train --load starts from it")
        ->required();
    app.add_option("--make-vocab-size-divisible-by", options.make_vocab_size_divisible_by,
                   "padding of the vocabulary, as weft-train will be told")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
  }

  void run() {
    if (weft::latest_iteration(options.save) || !weft::stored_iterations(options.save).empty()) {
      throw std::invalid_argument(options.save.string() +
                                  " already holds checkpoints; import into another folder");
    }
    weft::import_hf_gpt2(options);
    std::printf("imported %s to %s; start from it with weft-train --load %s\n",
                options.input.c_str(), options.save.c_str(), options.save.c_str());
  }
};

std::string with_suggestion(const std::string& what, const std::string& given,
                            const std::vector<std::string>& known) {
  const std::string nearest = weft::nearest_name(given, known);
  return "unknown " + what + " " + given +
         (nearest.empty() ? "; --help lists all" : ": did you mean " + nearest + "?");
}

struct DiffCommand {
  fs::path first, second;
  int64_t first_step = -1, second_step = -1;

  void declare(CLI::App& app) {
    app.add_option("--first", first, "checkpoint folder (weft-train's --save)")->required();
    app.add_option("--second", second, "another one, of any topology")->required();
    app.add_option("--first-step", first_step, "iteration in --first; default: the latest");
    app.add_option("--second-step", second_step, "iteration in --second; default: the latest");
  }

  // Returns kBadInput where the two differ.
  ExitCode run() {
    weft::CheckpointReader a(first, chosen_iteration(first, first_step));
    weft::CheckpointReader b(second, chosen_iteration(second, second_step));
    const weft::CheckpointDifferences differences = weft::compare_checkpoints(a, b);
    for (const std::string& line : differences.lines) std::printf("%s\n", line.c_str());
    std::printf("%lld tensors are equal, %zu differ\n",
                static_cast<long long>(differences.num_equal), differences.lines.size());
    return differences.lines.empty() ? ExitCode::kDone : ExitCode::kBadInput;
  }
};

// CLI11 names what is missing before what is unknown, and a mistyped name is both.
void check_names(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> commands, flags{"-h", "--help", "--version"};
  const CLI::App* command = nullptr;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(sub->get_name());
    if (argc > 1 && sub->get_name() == argv[1]) command = sub;
  }
  if (command == nullptr) {
    if (argc > 1 && argv[1][0] != '-')
      throw std::invalid_argument(with_suggestion("command", argv[1], commands));
    return;
  }
  for (const CLI::Option* option : command->get_options()) flags.push_back(option->get_name());
  for (int i = 2; i < argc; ++i) {
    const std::string flag = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
    if (flag.starts_with("--") && std::find(flags.begin(), flags.end(), flag) == flags.end())
      throw std::invalid_argument(with_suggestion("flag", flag, flags));
  }
}

int run(int argc, char** argv) {
  CLI::App app{"Exports checkpoints to Hugging Face GPT-2 folders, imports and compares them",
               "weft-model"};
  app.set_version_flag("--version", "weft-model " WEFT_VERSION);
  app.require_subcommand(1);
  ExportCommand export_command;
  ImportCommand import_command;
  DiffCommand diff_command;
  CLI::App* export_app =
      app.add_subcommand("export", "write a Hugging Face GPT-2 folder from a checkpoint");
  CLI::App* import_app =
      app.add_subcommand("import", "make a checkpoint from a Hugging Face GPT-2 folder");
  CLI::App* diff_app =
      app.add_subcommand("diff", "tell which tensors of two checkpoints differ, and by how much");
  export_command.declare(*export_app);
  import_command.declare(*import_app);
  diff_command.declare(*diff_app);
  check_names(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    throw std::invalid_argument(error.what());
  }
  if (export_app->parsed()) export_command.run();
  if (import_app->parsed()) import_command.run();
  if (diff_app->parsed()) return static_cast<int>(diff_command.run());
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

int main(int argc, char** argv) {
  weft::protect_standard_streams();
  weft::explain_bus_errors();
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(weft::exit_code_for(error));
  }
}
