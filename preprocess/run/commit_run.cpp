#include "preprocess/run/commit_run.h"

#include <sstream>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/process/crash_point.h"
#include "indexed_dataset/storage/file_io.h"
#include "preprocess/run/spill_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr char kCommit[] = "commit";
constexpr char kFirstLine[] = "weft-commit 1", kLastLine[] = "end\n";

std::string line_of(const char* verb, const FinishedFile& file) {
  return std::string(verb) + " " + file.from + " " + file.to.filename().string() + "\n";
}

struct Step {
  std::string verb;
  fs::path from, to;
};

// All of a commit file, before anything of it is done.
std::vector<Step> steps_of(const fs::path& folder, const std::string& text) {
  const std::string name = (folder / kCommit).string();
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  if (line != kFirstLine) {
    throw std::runtime_error(name + ": not a commit file of this version of weft-data");
  }
  // What the missing lines would have named would be removed as not needed any more.
  if (!text.ends_with(kLastLine)) {
    throw std::runtime_error(name + ": is cut off; remove " + folder.string() + " to start anew");
  }
  std::vector<Step> steps;
  while (std::getline(lines, line) && line + "\n" != kLastLine) {
    if (line.find('/') != std::string::npos) {
      throw std::runtime_error(name + ": names a file of another folder: '" + line +
                               "'; no run writes that, remove " + folder.string());
    }
    const size_t first = line.find(' '), second = line.find(' ', first + 1);
    const std::string verb = line.substr(0, first);
    if (second == std::string::npos || (verb != "replace" && verb != "rename")) {
      throw std::runtime_error(name + ": '" + line + "' is no step of a commit; remove " +
                               folder.string() + " to start anew");
    }
    steps.push_back({verb, folder / line.substr(first + 1, second - first - 1),
                     folder.parent_path() / line.substr(second + 1)});
  }
  return steps;
}

void carry_out(const fs::path& folder, const std::string& text) {
  for (const Step& step : steps_of(folder, text)) {
    if (!fs::exists(step.from)) continue;  // done before
    crash_point("commit_" + step.verb);
    if (step.verb == "replace") {
      remove_file(step.to);
    } else {
      commit_rename(step.from, step.to);
    }
  }
}

// Whether a run gives a file of its work folder this name.
bool is_of_a_run(const std::string& name) {
  for (const char* own : {"journal", "commit", "ranks"}) {
    if (name.starts_with(own)) return true;
  }
  // NFS keeps what another process has open under a name of its own.
  if (name.starts_with(".nfs") || is_stage_name(name)) return true;
  const size_t dot = name.find('.');
  const std::string first = name.substr(0, dot);
  if (dot == std::string::npos || name.size() == dot + 1) return false;
  const auto is_number = [](const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  };
  return is_number(first);
}

}  // namespace

void commit_run(const fs::path& folder, const std::vector<FinishedFile>& files,
                const std::vector<FinishedFile>& indexes) {
  std::string text = std::string(kFirstLine) + "\n";
  for (const FinishedFile& index : indexes) text += line_of("replace", index);
  for (const FinishedFile& file : files) text += line_of("rename", file);
  for (const FinishedFile& index : indexes) text += line_of("rename", index);
  text += kLastLine;
  crash_point("commit_begin");
  write_file_atomically(folder / kCommit, text);
  crash_point("commit_written");
  carry_out(folder, text);
  crash_point("commit_done");
  remove_work_folder(folder);
}

bool is_committing(const fs::path& folder) { return fs::exists(folder / kCommit); }

bool resume_commit(const fs::path& folder) {
  if (!is_committing(folder)) return false;
  carry_out(folder, read_file(folder / kCommit));
  remove_work_folder(folder);
  return true;
}

void check_work_folder(const fs::path& folder) {
  const fs::file_status status = fs::symlink_status(folder);
  if (!fs::exists(status) || fs::is_directory(status)) return;
  throw std::invalid_argument("'" + folder.string() + "' is " +
                              (fs::is_symlink(status) ? "a link" : "no folder") +
                              ", but the run works in a folder of that name; move it away, or "
                              "choose another --output-prefix");
}

void remove_work_folder(const fs::path& folder) {
  if (!fs::exists(folder)) return;
  std::vector<fs::path> rest;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!is_of_a_run(entry.path().filename().string()) || entry.is_directory()) {
      throw std::invalid_argument(
          "'" + entry.path().string() +
          "' is not of a run of weft-data, but lies where the next one would "
          "work; move it away, or choose another --output-prefix");
    }
    if (entry.path().filename() != kCommit) rest.push_back(entry.path());
  }
  remove_file(folder / "journal");
  crash_point("journal_removed");
  for (const fs::path& path : rest) fs::remove_all(path);
  crash_point("work_removed");
  remove_file(folder / kCommit);
  fs::remove_all(folder);
}

}  // namespace weft
