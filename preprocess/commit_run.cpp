#include "preprocess/commit_run.h"

#include <sstream>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/crash_point.h"
#include "indexed_dataset/file_io.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr char kCommit[] = "commit";
constexpr char kFirstLine[] = "weft-commit 1";

std::string line_of(const char* verb, const FinishedFile& file) {
  return std::string(verb) + " " + file.from + " " + file.to.filename().string() + "\n";
}

void carry_out(const fs::path& folder, const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  if (line != kFirstLine) {
    throw std::runtime_error((folder / kCommit).string() +
                             ": not a commit file of this version of weft-data");
  }
  while (std::getline(lines, line)) {
    const size_t first = line.find(' '), second = line.find(' ', first + 1);
    if (second == std::string::npos) continue;
    const std::string verb = line.substr(0, first);
    const fs::path from = folder / line.substr(first + 1, second - first - 1);
    const fs::path to = folder.parent_path() / line.substr(second + 1);
    if (!fs::exists(from)) continue;  // done before
    crash_point("commit_" + verb);
    if (verb == "replace") remove_file(to);
    if (verb == "rename") commit_rename(from, to);
  }
}

}  // namespace

void commit_run(const fs::path& folder, const std::vector<FinishedFile>& files,
                const std::vector<FinishedFile>& indexes) {
  std::string text = std::string(kFirstLine) + "\n";
  for (const FinishedFile& index : indexes) text += line_of("replace", index);
  for (const FinishedFile& file : files) text += line_of("rename", file);
  for (const FinishedFile& index : indexes) text += line_of("rename", index);
  crash_point("commit_begin");
  write_file_atomically(folder / kCommit, text);
  crash_point("commit_written");
  carry_out(folder, text);
  crash_point("commit_done");
  remove_work_folder(folder);
}

bool resume_commit(const fs::path& folder) {
  if (!fs::exists(folder / kCommit)) return false;
  carry_out(folder, read_file(folder / kCommit));
  remove_work_folder(folder);
  return true;
}

void remove_work_folder(const fs::path& folder) {
  if (!fs::exists(folder)) return;
  remove_file(folder / "journal");
  std::vector<fs::path> rest;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename() != kCommit) rest.push_back(entry.path());
  }
  for (const fs::path& path : rest) fs::remove_all(path);
  remove_file(folder / kCommit);
  fs::remove_all(folder);
}

}  // namespace weft
