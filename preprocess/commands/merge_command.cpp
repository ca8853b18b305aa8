// weft-data merge makes one dataset of several.
#include <fmt/format.h>

#include <chrono>
#include <map>

#include "indexed_dataset/beside/merge.h"
#include "indexed_dataset/pair/dataset_files.h"
#include "indexed_dataset/process/stop_signal.h"
#include "indexed_dataset/terminal/messages.h"
#include "indexed_dataset/terminal/terminal_text.h"
#include "preprocess/commands/commands.h"
#include "preprocess/commands/prefix_options.h"

namespace weft {
namespace {

class MergeCommand final : public Command {
 public:
  MergeCommand()
      : Command("merge", "make one dataset of several, in the order of the command line") {}
  void declare(OptionSet& options) override {
    options.texts("PREFIX", prefixes_, "the datasets: their paths without .bin and .idx");
    options.text("--output-prefix", output_prefix_,
                 "writes PREFIX.bin, .idx and what goes with them");
    threads_.declare(options);
    options.flag("--overwrite", overwrite_, "replace a finished dataset of other parts");
  }
  void validate(OptionSet& options) const override {
    if (prefixes_.empty()) options.problem("give the datasets: their paths without .bin and .idx");
    if (output_prefix_.empty()) options.problem("--output-prefix is required");
    // `merge part*` names the two files of every pair: each would be taken twice.
    std::map<std::string, std::string> suffix_of;
    for (const std::string& given : prefixes_) {
      const std::string prefix = without_suffix(given).string();
      const std::string suffix = given.substr(prefix.size());
      if (suffix.empty()) continue;
      const auto [place, is_new] = suffix_of.emplace(prefix, suffix);
      if (!is_new && place->second != suffix) {
        options.problem(
            fmt::format("'{}' is given twice, as .bin and as .idx: give one of them", prefix));
      }
    }
  }

  int run(const OptionSet& options) override {
    install_stop_signals();
    const auto start = std::chrono::steady_clock::now();
    MergeConfig config;
    for (const std::string& prefix : prefixes_) config.prefixes.push_back(without_suffix(prefix));
    config.output_prefix = without_suffix(output_prefix_);
    config.num_threads = threads_.resolved();
    config.overwrite = overwrite_;
    config.program_version = WEFT_VERSION;
    config.options = options.resolved();
    const MergeReport report = merge_datasets(config, [] {
      if (stop_signal() != 0) throw StoppedBySignal(stop_signal());
    });
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (const std::string& note : report.notes) print_message("note: " + note);
    fmt::print("{} {}.bin and .idx: {}, {} documents, {} tokens",
               report.was_there ? "is there already:" : "wrote",
               escape_message(config.output_prefix.string()),
               counted(std::ssize(config.prefixes), "part"), report.num_documents,
               report.num_tokens);
    if (!report.was_there) fmt::print(", {} bytes in {:.2f} s", report.num_bytes, seconds);
    fmt::print("\n");
    return 0;
  }

 private:
  std::vector<std::string> prefixes_;
  std::string output_prefix_;
  ThreadsOption threads_;
  bool overwrite_ = false;
};

}  // namespace

std::unique_ptr<Command> make_merge_command() { return std::make_unique<MergeCommand>(); }

}  // namespace weft
