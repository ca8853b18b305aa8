// weft-data tasks turns the files of benchmarks into those of weft-model evaluate --tasks.
#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "preprocess/benchmarks/benchmarks.h"
#include "preprocess/benchmarks/lm_eval_samples.h"
#include "preprocess/benchmarks/rows.h"
#include "preprocess/commands/commands.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class TasksCommand final : public Command {
 public:
  TasksCommand()
      : Command("tasks", "turn benchmarks into the files that weft-model evaluate --tasks reads",
                "weft-data tasks raw/hellaswag.parquet raw/lambada_openai.jsonl --output-folder "
                "tasks") {}

  void declare(OptionSet& options) override {
    options.texts(
        "FILE", files_,
        "benchmarks as download --benchmark leaves them (NAME.parquet, NAME.jsonl), or the "
        "samples that lm_eval --log_samples has written (samples_TASK_TIME.jsonl)");
    options.text("--benchmark", benchmark_,
                 "that of all files, where their names do not tell: " + benchmark_names());
    options.text("--output-folder", folder_, "where NAME.jsonl or TASK.jsonl goes");
  }

  void validate(OptionSet& options) const override {
    if (files_.empty()) options.problem("give the files of benchmarks");
    if (!benchmark_.empty() && find_benchmark(benchmark_) == nullptr)
      options.problem(
          fmt::format("--benchmark {}: it is none of {}", benchmark_, benchmark_names()));
    std::error_code ignored;
    if (!fs::is_directory(folder_, ignored))
      options.problem(
          fmt::format("--output-folder: '{}' does not exist; create it first", folder_));
    std::set<std::string> names;
    for (const std::string& file : files_) {
      const auto source = source_of(file);
      if (!source) {
        options.problem(fmt::format("'{}': its name is no benchmark's; give --benchmark, one of {}",
                                    file, benchmark_names()));
      } else if (!names.insert(source->task).second) {
        options.problem(fmt::format("'{}': another file makes {}.jsonl, too", file, source->task));
      } else if (fs::equivalent(file, output_of(*source), ignored)) {
        options.problem(
            fmt::format("'{}' would be replaced by what is made of it; give another "
                        "--output-folder",
                        file));
      }
    }
  }

  int run(const OptionSet&) override {
    for (const std::string& file : files_) {
      const Source source = source_of(file).value();
      std::string lines;
      int64_t num_examples = 0;
      for_each_row(file, [&](const nlohmann::json& row) {
        lines += source.example_of(row).dump() + "\n";
        ++num_examples;
      });
      if (num_examples == 0) throw std::runtime_error(file + " has no rows");
      write_file_atomically(output_of(source), lines);
      print_message(
          fmt::format("{}: {}", output_of(source).string(), counted(num_examples, "example")));
    }
    return static_cast<int>(ExitCode::kDone);
  }

 private:
  struct Source {
    std::string task;
    nlohmann::ordered_json (*example_of)(const nlohmann::json& row);
  };

  // By the file's name, unless --benchmark says what it is.
  std::optional<Source> source_of(const fs::path& file) const {
    if (const auto task = task_of_samples(file.filename().string()); task && benchmark_.empty())
      return Source{*task, example_of_sample};
    const Benchmark* const benchmark =
        find_benchmark(benchmark_.empty() ? file.stem().string() : benchmark_);
    if (benchmark == nullptr) return std::nullopt;
    return Source{benchmark->name, benchmark->example_of};
  }

  fs::path output_of(const Source& source) const {
    return fs::path(folder_) / (source.task + ".jsonl");
  }

  std::vector<std::string> files_;
  std::string benchmark_, folder_ = ".";
};

}  // namespace

std::unique_ptr<Command> make_tasks_command() { return std::make_unique<TasksCommand>(); }

}  // namespace weft
