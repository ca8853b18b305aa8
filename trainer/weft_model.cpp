// weft-model turns checkpoints into Hugging Face folders and back.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/process/standard_streams.h"
#include "indexed_dataset/storage/bus_error.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/hf_gpt2.h"
#include "trainer/config/megatron_flags.h"
#include "trainer/data/vocabulary_size.h"

namespace {

namespace fs = std::filesystem;
using weft::ExitCode;

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
                   "vocab.json; default: $WEFT_GPT2_DIR, ~/.cache/weft/gpt2");
    app.add_option("--merge-file", options.merge_file, "merges.txt, with --vocab-file");
    app.add_flag("--no-tokenizer", no_tokenizer, "write no tokenizer files");
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
    const fs::path folder = weft::vocabulary_folder();
    if (fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt")) {
      options.vocab_file = folder / "vocab.json";
      options.merge_file = folder / "merges.txt";
      return;
    }
    throw std::invalid_argument(
        "no vocab.json and merges.txt in " + folder.string() +
        " for the tokenizer files; give --vocab-file and --merge-file, or --no-tokenizer");
  }

  void run() {
    find_vocabulary();
    options.dtype = dtype == "float32" ? weft::DType::kFloat32 : weft::DType::kBFloat16;
    const auto latest = weft::latest_iteration(options.load);
    if (ckpt_step < 0 && !latest) {
      throw std::runtime_error(
          options.load.string() +
          " holds no checkpoint (no latest_checkpointed_iteration.txt); is it a --save folder?");
    }
    options.iteration = ckpt_step >= 0 ? ckpt_step : *latest;
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
    if (weft::latest_iteration(options.save)) {
      throw std::invalid_argument(options.save.string() +
                                  " already holds checkpoints; import into another folder");
    }
    weft::import_hf_gpt2(options);
    std::printf("imported %s to %s; start from it with weft-train --load %s\n",
                options.input.c_str(), options.save.c_str(), options.save.c_str());
  }
};

// CLI11 reports an unknown option by itself; this adds the option that was probably meant.
std::string with_suggestion(const CLI::Error& error, const CLI::App& app, int argc, char** argv) {
  std::string message = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return message;
  std::vector<std::string> known;
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (!sub->parsed()) continue;
    for (const CLI::Option* option : sub->get_options()) known.push_back(option->get_name());
  }
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (!flag.starts_with("--") || std::find(known.begin(), known.end(), flag) != known.end())
      continue;
    const std::string nearest = weft::nearest_flag(flag, known);
    message = "unknown flag " + flag +
              (nearest.empty() ? "; --help lists all" : ": did you mean " + nearest + "?");
    break;
  }
  return message;
}

int run(int argc, char** argv) {
  CLI::App app{"Exports checkpoints to Hugging Face GPT-2 folders and imports them", "weft-model"};
  app.set_version_flag("--version", "weft-model " WEFT_VERSION);
  app.require_subcommand(1);
  ExportCommand export_command;
  ImportCommand import_command;
  CLI::App* export_app =
      app.add_subcommand("export", "write a Hugging Face GPT-2 folder from a checkpoint");
  CLI::App* import_app =
      app.add_subcommand("import", "make a checkpoint from a Hugging Face GPT-2 folder");
  export_command.declare(*export_app);
  import_command.declare(*import_app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    throw std::invalid_argument(with_suggestion(error, app, argc, argv));
  }
  if (export_app->parsed()) export_command.run();
  if (import_app->parsed()) import_command.run();
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
