// A run that dies at each named place (crash_point.h), the first and the second time it comes by.
#include <fcntl.h>
#include <unistd.h>

#include <set>
#include <sstream>

#include "indexed_dataset/storage/file_io.h"
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
};

TEST_F(CrashPoints, TheNextRunMakesTheSameFiles) {
  const std::set<std::string> all = names();
  EXPECT_GE(all.size(), 15U);
  for (const std::string& name : all) {
    for (const char* time : {":1", ":2"}) {
      const RunEnd end = run(crash_at(name + time));
      expect_nothing_half_done(name + time);
      // Not every place is passed twice, and some only where time allows.
      if (!end.is_killed()) {
        EXPECT_EQ(end.exit_code, 0) << name << time << ": " << end.message;
      }
      expect_rerun_completes(name + time);
      remove_output();
      if (HasFailure()) return;
    }
  }
}

// Dies at one place, and when it goes on at another.
TEST_F(CrashPoints, TwoCrashesInARow) {
  const std::set<std::string> all = names();
  for (const std::string& first : all) {
    auto second = all.find(first);
    if (++second == all.end()) second = all.begin();
    run(crash_at(first));
    run(crash_at(*second));
    expect_nothing_half_done(first + ", " + *second);
    expect_rerun_completes(first + ", " + *second);
    remove_output();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace weft
