#include "preprocess/run/commit_run.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "indexed_dataset/process/crash_point.h"
#include "indexed_dataset/storage/file_io.h"
#include "preprocess/run/work_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr char kCommit[] = "commit";
constexpr char kMagic[] = "weft-commit 2 ", kLastLine[] = "end\n";
constexpr const char* kFinishedSuffixes[] = {".bin", ".sources", ".checksums", ".manifest.json",
                                             ".idx"};

std::string line_of(const char* verb, const FinishedFile& file) {
  return std::string(verb) + " " + file.from + " " + file.to.filename().string() + "\n";
}

bool is_of_a_dataset(const std::string& name, const std::vector<fs::path>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const fs::path& prefix) {
    return std::any_of(
        std::begin(kFinishedSuffixes), std::end(kFinishedSuffixes),
        [&](const char* suffix) { return name == prefix.filename().string() + suffix; });
  });
}

CommitStep step_of(const std::string& line, const fs::path& folder,
                   const std::vector<fs::path>& prefixes) {
  const std::string name = (folder / kCommit).string();
  const size_t first = line.find(' '), second = line.find(' ', first + 1);
  const std::string verb = line.substr(0, first);
  if (second == std::string::npos || (verb != "replace" && verb != "rename")) {
    throw std::runtime_error(name + ": '" + line + "' is no step of a commit; remove " +
                             folder.string() + " to start anew");
  }
  const std::string from = line.substr(first + 1, second - first - 1), to = line.substr(second + 1);
  if (from.find('/') != std::string::npos || !is_of_a_dataset(to, prefixes)) {
    throw std::runtime_error(name + ": '" + line +
                             "' names a file that is not of this run's datasets; no run writes "
                             "that, remove " +
                             folder.string());
  }
  return {verb == "rename", folder / from, folder.parent_path() / to};
}

void carry_out(const std::vector<CommitStep>& steps) {
  for (const CommitStep& step : steps) {
    if (!fs::exists(step.from)) continue;  // done before
    crash_point(step.is_rename ? "commit_rename" : "commit_replace");
    if (step.is_rename) {
      commit_rename(step.from, step.to);
    } else {
      remove_file(step.to);
    }
  }
}

}  // namespace

void commit_run(const fs::path& folder, const std::string& run_hash,
                const std::vector<FinishedFile>& files, const std::vector<FinishedFile>& indexes) {
  std::string text = kMagic + run_hash + "\n";
  std::vector<CommitStep> steps;
  const auto add = [&](bool is_rename, const FinishedFile& file) {
    text += line_of(is_rename ? "rename" : "replace", file);
    steps.push_back({is_rename, folder / file.from, file.to});
  };
  for (const FinishedFile& index : indexes) add(false, index);
  for (const FinishedFile& file : files) add(true, file);
  for (const FinishedFile& index : indexes) add(true, index);
  text += kLastLine;
  crash_point("commit_begin");
  write_file_atomically(folder / kCommit, text);
  crash_point("commit_written");
  carry_out(steps);
  crash_point("commit_done");
  remove_work_folder(folder);
}

bool is_committing(const fs::path& folder) { return fs::exists(folder / kCommit); }

std::optional<InterruptedCommit> InterruptedCommit::find(const fs::path& folder,
                                                         const std::vector<fs::path>& prefixes) {
  if (!is_committing(folder)) return std::nullopt;
  const std::string name = (folder / kCommit).string();
  const std::string text = read_file(folder / kCommit, Links::kRefuse);
  if (!text.starts_with(kMagic)) {
    throw std::runtime_error(name + ": not a commit file of this version of weft-data");
  }
  // The files that the missing lines named would be removed with the folder.
  if (!text.ends_with(std::string("\n") + kLastLine)) {
    throw std::runtime_error(name + ": is cut off; remove " + folder.string() + " to start anew");
  }
  InterruptedCommit commit;
  commit.folder_ = folder;
  std::istringstream lines(text.substr(std::size(kMagic) - 1));
  std::getline(lines, commit.run_hash_);
  std::string line;
  while (std::getline(lines, line) && line + "\n" != kLastLine) {
    commit.steps_.push_back(step_of(line, folder, prefixes));
  }
  return commit;
}

void InterruptedCommit::resume() const {
  carry_out(steps_);
  remove_work_folder(folder_);
}

}  // namespace weft
