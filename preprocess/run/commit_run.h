// Gives a run's files their names: all, or, after a crash, all the next time.
//
// PREFIX.work/commit is written when every file is whole and synced. From then on nothing can fail
// for want of space, and whoever finds the file carries on:
//
//   weft-commit 2 HASH                         the run's hash (run_identity.h)
//   replace 0.idx my-gpt2_text_document.idx    while work/0.idx is there: removes the old file
//   rename 0.bin my-gpt2_text_document.bin     while work/0.bin is there: gives it its name
//   ...
//   rename 0.idx my-gpt2_text_document.idx     last: the .idx says that a pair is complete
//   end
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct FinishedFile {
  std::string from;          // in the work folder
  std::filesystem::path to;  // beside the work folder
};

struct CommitStep {
  bool is_rename = false;  // or else a removal of `to`
  std::filesystem::path from, to;
};

// Writes the commit file and carries it out; `indexes` get their names last, and what they replace
// is removed first. Then the folder is removed. Throws std::system_error.
void commit_run(const std::filesystem::path& folder, const std::string& run_hash,
                const std::vector<FinishedFile>& files, const std::vector<FinishedFile>& indexes);

// Whether files are being given their names, or were when a run ended.
bool is_committing(const std::filesystem::path& folder);

// A commit that was interrupted.
class InterruptedCommit {
 public:
  // Reads all of the commit file. Nothing if there is none. Throws std::runtime_error for one that is
  // cut off, or that touches other files than those of `prefixes` and of the work folder.
  static std::optional<InterruptedCommit> find(const std::filesystem::path& folder,
                                               const std::vector<std::filesystem::path>& prefixes);
  const std::string& run_hash() const { return run_hash_; }
  // Carries it out and removes the folder. Throws std::system_error.
  void resume() const;

 private:
  std::filesystem::path folder_;
  std::string run_hash_;
  std::vector<CommitStep> steps_;
};

}  // namespace weft
