// Runs of the pipeline in processes of their own, which may be killed or made to fail, and what
// they left on the disk.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "preprocess/run/pipeline.h"
#include "tests/temporary_folder.h"

namespace weft {

// How a run ended.
struct RunEnd {
  int exit_code = -1;                      // as weft-data's; -1: killed
  std::string message;                     // of its error
  std::string notes;                       // a line each
  int64_t num_io_calls = 0;                // until its end (0 if it was killed)
  int64_t num_restored = 0, num_seen = 0;  // documents: known when it began, and when it ended
  bool was_there = false;
  bool is_killed() const { return exit_code < 0; }
};

class ForkedRuns : public ::testing::Test {
 protected:
  // Small tasks and chunks, results that are spilled, syncs all the time. `parent`: where the
  // folder of this test is made.
  explicit ForkedRuns(const std::filesystem::path& parent = memory_folder());

  // About `num_bytes` of JSONL under that name, compressed in several parts where the name says so
  // (.zst, .xz) or in one (.gz); some documents are empty, some lines long, and with
  // rules.origin_key many say where they are from. With rules.split_texts_at it has blank lines, to
  // be read as plain text. Becomes an input.
  void add_input(const std::string& name, size_t num_bytes, uint32_t seed);

  // A run in a process of its own, in which `prepare` is called first. With `kill_after` it is
  // killed then, if it has not ended before.
  RunEnd run(const std::function<void()>& prepare = {},
             std::chrono::microseconds kill_after = std::chrono::microseconds(-1)) const;

  // The files of the dataset by suffix, "" where one is missing.
  std::map<std::string, std::string> output() const;
  void remove_output() const;
  // Makes the output of an undisturbed run; call it once, first.
  void make_reference();
  // Expects that no file with a final name is incomplete: no .idx is there, or all files are.
  void expect_nothing_half_done(const std::string& when) const;
  // The same command again makes what an undisturbed run makes, and tidies up. Its end.
  RunEnd expect_rerun_completes(const std::string& when) const;

  std::string path(const std::string& name) const { return folder_.path() / name; }

  // run() is asked to stop when it has seen so many documents (-1: never), and then does if
  // on_stop_ is empty or returns true.
  int64_t stop_at_ = -1;
  std::function<bool()> on_stop_;
  // Whatever was seen: run() is asked to stop from when this returns true.
  std::function<bool()> stop_if_;

  TemporaryFolder folder_;
  std::filesystem::path out_folder_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  PipelineConfig config_;
  std::map<std::string, std::string> reference_;
  int64_t num_reference_documents_ = 0, num_reference_calls_ = 0;
  std::chrono::microseconds reference_time_{0};
};

// Sets WEFT_CRASH_AT; for run()'s `prepare`.
std::function<void()> crash_at(const std::string& name);

}  // namespace weft
