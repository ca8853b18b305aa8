// Gives a run's files their names: all, or, after a crash, all the next time.
//
// PREFIX.work/commit is written when every file is whole and synced. From then on nothing can fail
// for want of space, and whoever finds the file carries on:
//
//   weft-commit 1
//   replace 0.idx my-gpt2_text_document.idx    while work/0.idx is there: removes the old file
//   rename 0.bin my-gpt2_text_document.bin     while work/0.bin is there: gives it its name
//   ...
//   rename 0.idx my-gpt2_text_document.idx     last: the .idx says that a pair is complete
//   end
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace weft {

struct FinishedFile {
  std::string from;          // in the work folder
  std::filesystem::path to;  // beside the work folder
};

// Writes the commit file and carries it out; `indexes` get their names last, and what they replace
// is removed first. Then the folder is removed. Throws std::system_error.
void commit_run(const std::filesystem::path& folder, const std::vector<FinishedFile>& files,
                const std::vector<FinishedFile>& indexes);

// Whether files are being given their names, or were when a run ended.
bool is_committing(const std::filesystem::path& folder);

// Carries out a commit that was interrupted. False if there is none. Throws std::runtime_error for
// a commit file that is none or is not whole, before anything is done.
bool resume_commit(const std::filesystem::path& folder);

// Throws std::invalid_argument if something else than a folder has the name of the work folder: by
// a link the work may lie on another file system, where files cannot be given their names.
void check_work_folder(const std::filesystem::path& folder);

// Removes a work folder: its journal first, so that what is left of it after a crash is not work.
// Throws std::invalid_argument, and removes nothing, if there is something in it that no run makes:
// a folder of that name may be somebody's own.
void remove_work_folder(const std::filesystem::path& folder);

}  // namespace weft
