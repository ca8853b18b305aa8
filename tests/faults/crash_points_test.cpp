// A run that dies at each named place (crash_point.h), the first and the second time it comes by.
#include <fcntl.h>
#include <unistd.h>

#include <set>
#include <sstream>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/faults/forked_run.h"

namespace weft {
namespace {

class CrashPoints : public ForkedRuns {
 protected:
  void SetUp() override {
    add_input("a.jsonl", 30'000, 1);
    add_input("b.jsonl.xz", 6'000, 2);
    make_reference();
  }

  std::set<std::string> names() const {
    const std::string log = path("log");
    run([=] {
      crash_at("list")();
      ::dup2(::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    });
    remove_output();
    std::istringstream lines(read_file(log));
    std::set<std::string> found;
    constexpr std::string_view kBefore = "crash point: ";
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(kBefore)) found.insert(line.substr(kBefore.size()));
    }
    return found;
  }

  // Some places are reached only where threads meet in a certain way, so several runs may be
  // needed.
  void run_until_killed_at(const std::string& place) {
    for (int attempt = 0; attempt < 20; ++attempt) {
      const RunEnd end = run(crash_at(place));
      if (end.is_killed()) return;
      ASSERT_EQ(end.exit_code, 0) << place << ": " << end.message;
      remove_output();
    }
    FAIL() << "none of 20 runs dies at " << place;
  }

  // The dataset is there, and no work is left to do.
  bool is_complete() const { return output() == reference_ && !exists(out_folder_ / "d.work"); }

  // The place behind `place`; the first one behind the last.
  static std::set<std::string>::const_iterator next(const std::set<std::string>& all,
                                                    std::set<std::string>::const_iterator place) {
    return ++place == all.end() ? all.begin() : place;
  }
};

TEST_F(CrashPoints, TheNextRunMakesTheSameFiles) {
  const std::set<std::string> all = names();
  EXPECT_GE(all.size(), 15U);
  int num_second_times = 0;
  for (const std::string& name : all) {
    run_until_killed_at(name);
    expect_nothing_half_done(name);
    expect_rerun_completes(name);
    remove_output();
    // Only some places are passed twice.
    const RunEnd end = run(crash_at(name + ":2"));
    num_second_times += end.is_killed() ? 1 : 0;
    EXPECT_TRUE(end.is_killed() || end.exit_code == 0) << name << ":2: " << end.message;
    expect_nothing_half_done(name + ":2");
    expect_rerun_completes(name + ":2");
    remove_output();
    if (HasFailure()) return;
  }
  EXPECT_GE(num_second_times, 8) << "of " << all.size();
}

// A run dies at one place, and the run that goes on dies at another.
TEST_F(CrashPoints, TwoCrashesInARow) {
  const std::set<std::string> all = names();
  int num_complete = 0;
  for (auto first = all.begin(); first != all.end(); ++first) {
    // A run that goes on does not pass every place again, so others are tried until it dies.
    std::string both;
    for (auto second = next(all, first); second != first && both.empty();
         second = next(all, second)) {
      run_until_killed_at(*first);
      if (HasFailure()) return;
      if (is_complete()) break;
      if (run(crash_at(*second)).is_killed())
        both = *first + ", " + *second;
      else
        remove_output();
    }
    if (is_complete()) {
      ++num_complete;
    } else {
      EXPECT_NE(both, "") << "no run that goes on after " << *first << " dies anywhere";
    }
    expect_nothing_half_done(both);
    expect_rerun_completes(both);
    remove_output();
    if (HasFailure()) return;
  }
  EXPECT_LE(num_complete, 2) << "places behind the last step of a run";
}

}  // namespace
}  // namespace weft
