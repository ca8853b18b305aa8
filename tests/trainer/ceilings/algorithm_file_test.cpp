// Timed GEMM algorithms are kept in a file that several processes share.
#include "trainer/ceilings/algorithm_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>

#include "indexed_dataset/base/storage/file_io.h"
#include "kernels/cuda/gemm/algorithm_table.h"
#include "kernels/forwarding_backend.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

// A backend that times GEMMs as a GPU does: each that has no choice gets `value`.
class TimingBackend final : public ForwardingBackend {
 public:
  explicit TimingBackend(std::string value)
      : ForwardingBackend(create_cpu_backend(1)), value_(std::move(value)) {}
  TuneResult tune(std::span<const AnyOperation>, const AlgorithmChoices& known) override {
    table_.offer(known);
    for (const std::string& key : keys) {
      if (table_.find(key) == refused) table_.try_forget(key);
      if (!table_.find(key)) table_.add(key, value_);
    }
    if (meanwhile) meanwhile();
    return {.notes = "timed\n", .timed = table_.take_timed()};
  }
  std::string algorithms() const override { return text_of(table_.in_use()); }
  void use_algorithms(const std::string& text) override {
    table_.use(parse_algorithms(text, "a text"));
  }

  std::vector<std::string> keys = {"key"};
  std::string refused = "an algorithm of another library";
  std::function<void()> meanwhile;

 private:
  const std::string value_;
  cuda::AlgorithmTable table_;
};

class AlgorithmFile : public testing::Test {
 protected:
  std::string tune(TimingBackend& backend) const { return tune_with_file(backend, {}, file_); }

  TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_ / "sub/algorithms";
};

TEST_F(AlgorithmFile, IsFoundByTheNextRun) {
  TimingBackend first("1"), second("2");
  EXPECT_EQ(tune(first), "timed\n");
  second.keys = {"key", "other"};
  tune(second);
  EXPECT_EQ(second.algorithms(), "weft-gemm-algorithms 1\nkey 1\nother 2\n");
  EXPECT_EQ(read_file(file_), second.algorithms());
  const std::filesystem::directory_iterator files(file_.parent_path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "nothing is left beside it";
}

TEST_F(AlgorithmFile, FirstChoiceStaysAlsoWhenAnotherProcessMadeIt) {
  TimingBackend first("1"), second("2");
  second.keys = {"key", "mine"};
  second.meanwhile = [&] { tune(first); };
  tune(second);
  EXPECT_EQ(second.algorithms(), "weft-gemm-algorithms 1\nkey 1\nmine 2\n");
  EXPECT_EQ(read_file(file_), second.algorithms());
}

TEST_F(AlgorithmFile, AChoiceThatTheLibraryRefusesIsReplaced) {
  TimingBackend first("1"), second("2"), third("3");
  first.keys = {"key", "other"};
  tune(first);
  second.refused = "1";
  tune(second);
  EXPECT_EQ(second.algorithms(), "weft-gemm-algorithms 1\nkey 2\n");
  EXPECT_EQ(read_file(file_), "weft-gemm-algorithms 1\nkey 2\nother 1\n");
  tune(third);
  EXPECT_EQ(third.algorithms(), second.algorithms());
}

TEST_F(AlgorithmFile, OfAnotherVersionIsReplacedWithANote) {
  std::filesystem::create_directory(file_.parent_path());
  for (const char* text :
       {"weft-gemm-algorithms 2\nkey = 7\n", "weft-gemm-algorithms 1\nkey 7\nhalf"}) {
    write_file_atomically(file_, text);
    TimingBackend backend("1");
    EXPECT_THAT(tune(backend), testing::HasSubstr("this version's take their place")) << text;
    EXPECT_EQ(backend.algorithms(), "weft-gemm-algorithms 1\nkey 1\n");
    EXPECT_EQ(read_file(file_), backend.algorithms());
    TimingBackend next("2");
    EXPECT_EQ(tune(next), "timed\n") << "no note the next time";
  }
}

TEST_F(AlgorithmFile, IsNotWrittenWithoutAName) {
  TimingBackend backend("1");
  EXPECT_EQ(tune_with_file(backend, {}, ""), "");
  EXPECT_EQ(backend.algorithms(), "") << "without a file nothing is timed";
}

TEST_F(AlgorithmFile, ThatCannotBeWrittenIsANote) {
  std::ofstream(folder_ / "sub") << "a file where the folder should be";
  TimingBackend backend("1");
  const std::string notes = tune(backend);
  EXPECT_THAT(notes, testing::StartsWith("timed\nthe timed GEMM algorithms are not kept: "));
  EXPECT_THAT(notes, testing::HasSubstr((folder_ / "sub").string()));
  EXPECT_THAT(notes, testing::EndsWith("(--gemm-algorithm-cache names another file)\n"));
  EXPECT_EQ(backend.algorithms(), "weft-gemm-algorithms 1\nkey 1\n");
}

TEST_F(AlgorithmFile, ThatIsNoRegularFileIsLeftAloneWithANote) {
  std::filesystem::create_directory(file_.parent_path());
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  TimingBackend backend("1");
  EXPECT_THAT(tune(backend), testing::HasSubstr("which is no regular file"));
  EXPECT_EQ(backend.algorithms(), "weft-gemm-algorithms 1\nkey 1\n");
  EXPECT_TRUE(std::filesystem::is_fifo(file_)) << "a pipe, as /dev/null is a device";
  const std::filesystem::directory_iterator files(file_.parent_path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "no lock is left beside it";
}

// Each I/O call that fails (a full disk, for example) leaves the old text or the new one.
TEST_F(AlgorithmFile, IsWholeAfterAFailedCall) {
  const std::string before = "weft-gemm-algorithms 1\nkey 1\n", after = before + "other 2\n";
  std::filesystem::create_directories(file_.parent_path());
  const auto tune_with_fault = [&](int64_t fail_at) {
    write_file_atomically(file_, before);
    TimingBackend backend("2");
    backend.keys = {"other"};
    set_io_fault(fail_at, ENOSPC);
    const std::string notes = tune(backend);
    set_io_fault(0, 0);
    return notes;
  };
  write_file_atomically(file_, before);
  const int64_t calls_before = num_io_calls();
  write_file_atomically(file_, before);
  const int64_t of_writing = num_io_calls() - calls_before;
  tune_with_fault(0);
  const int64_t num_calls = num_io_calls() - calls_before - 2 * of_writing;
  EXPECT_EQ(read_file(file_), after);
  EXPECT_GT(num_calls, 5);
  int num_failed = 0;
  for (int64_t call = 1; call <= num_calls; ++call) {
    const bool kept = tune_with_fault(call) == "timed\n";
    num_failed += kept ? 0 : 1;
    const std::string text = read_file(file_);
    EXPECT_TRUE(text == after || (!kept && text == before)) << call << ": " << text;
  }
  EXPECT_GT(num_failed, 3);
}

TEST_F(AlgorithmFile, OfAnotherKindIsRefused) {
  std::filesystem::create_directory(file_.parent_path());
  write_file_atomically(file_, "{}\n");
  TimingBackend backend("1");
  EXPECT_THROW(tune(backend), std::runtime_error);
  EXPECT_EQ(read_file(file_), "{}\n") << "nothing is lost";
}

}  // namespace
}  // namespace weft
