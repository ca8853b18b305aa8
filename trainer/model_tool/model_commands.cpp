#include "trainer/model_tool/model_commands.h"

#include <fmt/format.h>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/model_tool/checkpoint_option.h"
#include "trainer/model_tool/compare_checkpoints.h"
#include "trainer/model_tool/hf_folder.h"

namespace weft {
namespace {

class ExportCommand final : public Command {
 public:
  ExportCommand()
      : Command("export",
                "write a Hugging Face folder of GPT-2, BLOOM, LLaMA or Qwen from a checkpoint",
                "weft-model export --load checkpoints --output my-gpt2-hf") {}

  void declare(OptionSet& options) override {
    options.text("--load", load_.folder, "checkpoint folder (weft-train's --save)");
    options.text("--output", output_,
                 "folder to write: config.json, model.safetensors, tokenizer files");
    options.integer("--ckpt-step", load_.step, "iteration to export; default: the latest");
    options.choice("--dtype", dtype_,
                   {{"float32", DType::kFloat32},
                    {"bfloat16", DType::kBFloat16},
                    {"float16", DType::kFloat16},
                    {"fp32", DType::kFloat32},
                    {"bf16", DType::kBFloat16},
                    {"fp16", DType::kFloat16}},
                   "type of the weights");
    options.text("--vocab-file", vocab_file_,
                 "vocab.json; default: the one that the model's data was made with");
    options.text("--merge-file", merge_file_, "merges.txt, with --vocab-file");
    options.text("--tokenizer", tokenizer_,
                 "the tokenizer's file of another kind, such as tokenizer.json; default: the one "
                 "that the model's data was made with");
    options.flag("--no-tokenizer", no_tokenizer_, "write no tokenizer files");
    options.flag("--overwrite", overwrite_, "replace an older export in --output");
  }

  void validate(OptionSet& options) const override {
    if (load_.folder.empty()) options.problem("--load is required");
    if (output_.empty()) options.problem("--output is required");
    if (vocab_file_.empty() != merge_file_.empty())
      options.problem("--vocab-file and --merge-file belong together: give both or none");
    if (!vocab_file_.empty() && !tokenizer_.empty())
      options.problem("--tokenizer and --vocab-file both name the tokenizer: give one of them");
  }

  int run(const OptionSet&) override {
    HfExport job{.load = load_.folder,
                 .iteration = load_.iteration(),
                 .output = output_,
                 .overwrite = overwrite_,
                 .dtype = dtype_};
    // The tokenizer's files must be those of the model. An export without them must be asked for.
    if (!no_tokenizer_ && !vocab_file_.empty()) {
      job.tokenizer = gpt2_files(vocab_file_, merge_file_);
    } else if (!no_tokenizer_) {
      const CheckpointInfo info = read_checkpoint_info(job.load, job.iteration);
      job.tokenizer = tokenizer_.empty() ? find_tokenizer_files(info, ", or --no-tokenizer")
                                         : given_tokenizer(info.data.vocabulary.tokenizer);
    }
    export_hf(job);
    fmt::print("exported iteration {} of {} to {}\n", job.iteration, escape_message(load_.folder),
               escape_message(output_));
    return static_cast<int>(ExitCode::kDone);
  }

 private:
  // The data names its kind; where it knows none, the file is taken for a tokenizer.json.
  TokenizerFiles given_tokenizer(const TokenizerFiles& of_data) const {
    if (is_gpt2(of_data)) {
      throw UsageError(
          "--tokenizer: the model's data was made with a vocab.json and a merges.txt; give "
          "--vocab-file and --merge-file");
    }
    return tokenizer_file(of_data.empty() ? kHuggingFaceKind : of_data.kind, tokenizer_);
  }

  CheckpointOption load_;
  std::string output_, vocab_file_, merge_file_, tokenizer_;
  DType dtype_ = DType::kFloat32;
  bool no_tokenizer_ = false, overwrite_ = false;
};

class ImportCommand final : public Command {
 public:
  ImportCommand()
      : Command(
            "import",
            "make a checkpoint from a Hugging Face folder of GPT-2, BLOOM, LLaMA, Mistral or Qwen",
            "weft-model import --input gpt2-hf --save start") {}

  void declare(OptionSet& options) override {
    options.text("--input", input_, "Hugging Face folder: config.json, model.safetensors");
    options.text("--save", save_,
                 "checkpoint folder to write iteration 0 to; weft-train --load starts from it");
    options.integer("--make-vocab-size-divisible-by", make_vocab_size_divisible_by_,
                    "padding of the vocabulary, as weft-train will be told", 1);
  }

  void validate(OptionSet& options) const override {
    if (input_.empty()) options.problem("--input is required");
    if (save_.empty()) options.problem("--save is required");
  }

  int run(const OptionSet&) override {
    if (latest_iteration(save_) || !stored_iterations(save_).empty()) {
      throw UsageError(save_ + " already holds checkpoints; import into another folder");
    }
    const std::string note =
        import_hf({.input = input_,
                   .save = save_,
                   .make_vocab_size_divisible_by = make_vocab_size_divisible_by_});
    if (!note.empty()) print_message("note: " + note);
    const std::string folder = escape_message(save_);
    fmt::print("imported {} to {}; start from it with weft-train --load {}\n",
               escape_message(input_), folder, folder);
    return static_cast<int>(ExitCode::kDone);
  }

 private:
  std::string input_, save_;
  int64_t make_vocab_size_divisible_by_ = HfImport{}.make_vocab_size_divisible_by;
};

class DiffCommand final : public Command {
 public:
  DiffCommand()
      : Command("diff", "tell which tensors of two checkpoints differ, and by how much",
                "weft-model diff --first checkpoints --second other") {}

  void declare(OptionSet& options) override {
    options.text("--first", first_.folder, "checkpoint folder (weft-train's --save)");
    options.text("--second", second_.folder, "another one, of any topology");
    options.integer("--first-step", first_.step, "iteration in --first; default: the latest");
    options.integer("--second-step", second_.step, "iteration in --second; default: the latest");
  }

  void validate(OptionSet& options) const override {
    if (first_.folder.empty()) options.problem("--first is required");
    if (second_.folder.empty()) options.problem("--second is required");
  }

  // Returns kBadInput where the two differ.
  int run(const OptionSet&) override {
    CheckpointReader a(first_.folder, first_.iteration());
    CheckpointReader b(second_.folder, second_.iteration());
    const CheckpointDifferences differences = compare_checkpoints(a, b);
    for (const std::string& line : differences.lines) fmt::print("{}\n", escape_message(line));
    fmt::print("{} tensors are equal, {} differ\n", differences.num_equal,
               differences.lines.size());
    return static_cast<int>(differences.lines.empty() ? ExitCode::kDone : ExitCode::kBadInput);
  }

 private:
  CheckpointOption first_, second_;
};

}  // namespace

std::unique_ptr<Command> make_export_command() { return std::make_unique<ExportCommand>(); }

std::unique_ptr<Command> make_import_command() { return std::make_unique<ImportCommand>(); }

std::unique_ptr<Command> make_diff_command() { return std::make_unique<DiffCommand>(); }

}  // namespace weft
