// weft-data repair makes a lost or damaged .idx again.
#include <fmt/format.h>

#include <cstdio>

#include "indexed_dataset/process/exit_code.h"
#include "preprocess/commands/commands.h"
#include "preprocess/commands/messages.h"
#include "preprocess/datasets/dataset_text.h"
#include "preprocess/datasets/repair.h"
#include "preprocess/terminal/prefix_options.h"
#include "preprocess/terminal/terminal_text.h"

namespace weft {
namespace {

class RepairCommand final : public Command {
 public:
  std::string name() const override { return "repair"; }
  std::string description() const override {
    return "make a lost or damaged .idx again from the .bin and what stands beside it";
  }
  void declare(OptionSet& options) override {
    options.positional("PREFIX", prefix_, "the dataset: its path without .bin and .idx");
    options.integer("--eod-id", config_.end_of_document,
                    "the token that ends every document; without it: the last one of .bin", 0,
                    INT32_MAX);
    options.integer("--token-bytes", config_.token_bytes,
                    "2 or 4, for a dataset without manifest: bytes of a token in .bin", 2, 4);
    threads_.declare(options);
  }
  void validate(OptionSet& options) const override {
    if (prefix_.empty()) options.problem("give the dataset: its path without .bin and .idx");
    if (config_.token_bytes == 3) options.problem("--token-bytes: 3 is neither 2 nor 4");
  }

  int run(const OptionSet&) override {
    config_.prefix = without_suffix(prefix_);
    config_.num_threads = threads_.resolved();
    const RepairReport report = repair_dataset(config_);
    const std::string idx = escape_message(config_.prefix.string()) + ".idx";
    if (report.was_sound) {
      fmt::print("{}: is sound, nothing was done\n", idx);
    } else {
      fmt::print("{}: {}; {}\n", idx, report.how,
                 report.is_proven ? "it fits its checksum: these are the bytes that were lost"
                                  : "there is no checksum to prove it: compare the counts with "
                                    "what you know (weft-data info)");
    }
    for (const std::string& problem : report.other_problems)
      std::fprintf(stdout, "%s\n", escape_message(problem).c_str());
    if (report.other_problems.empty()) return 0;
    print_message(
        fmt::format("error: {}: only an .idx can be made again; the rest needs the corpus",
                    config_.prefix.string()));
    return static_cast<int>(ExitCode::kChecksumMismatch);
  }

 private:
  std::string prefix_;
  RepairConfig config_;
  ThreadsOption threads_;
};

}  // namespace

std::unique_ptr<Command> make_repair_command() { return std::make_unique<RepairCommand>(); }

}  // namespace weft
