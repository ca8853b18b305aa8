#include "indexed_dataset/base/storage/file_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/bus_error.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::system_error& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

TEST(OutputFile, AppendsAndWritesAtOffsets) {
  const TemporaryFolder folder;
  OutputFile file(folder / "a");
  file.append("hello", 5);
  file.append(" world", 6);
  file.write_at("J", 1, 0);
  EXPECT_EQ(file.size_bytes(), 11);
  file.close();
  EXPECT_EQ(read_file(folder / "a"), "Jello world");

  OutputFile kept(folder / "a", /*keep=*/true);
  kept.append("!", 1);
  kept.truncate(12);
  kept.sync();
  kept.close();
  EXPECT_EQ(read_file(folder / "a"), "Jello world!");
}

TEST(OutputFile, IsWrittenOutAtAnEvenPace) {
  const TemporaryFolder folder;
  const std::string block(1 << 16, 'x');
  OutputFile file(folder / "a");
  for (int i = 0; i < 64; ++i) {
    file.append(block.data(), block.size());
    file.bound_unwritten(1 << 20);
  }
  file.close();
  EXPECT_EQ(read_file(folder / "a"), std::string(64 << 16, 'x'));

  OutputFile other(folder / "b");
  other.append("x", 1);
  set_io_fault(1, EINVAL);  // a file system without that call
  other.bound_unwritten(0);
  set_io_fault(1, ENOSPC);
  EXPECT_THAT(message_of([&] { other.bound_unwritten(0); }),
              ::testing::AllOf(HasSubstr("/b'"), HasSubstr("No space left on device")));
  set_io_fault(0, 0);
}

TEST(OutputFile, ErrorsNameThePath) {
  EXPECT_THAT(message_of([] { OutputFile file("/nonexistent/x.bin"); }),
              HasSubstr("'/nonexistent/x.bin'"));
  EXPECT_THAT(message_of([] { OutputFile("/dev/full").append("x", 1); }),
              ::testing::AllOf(HasSubstr("'/dev/full'"), HasSubstr("No space left on device")));
  EXPECT_THAT(message_of([] { read_file("/nonexistent/y"); }), HasSubstr("'/nonexistent/y'"));
  EXPECT_THAT(message_of([] { MappedFile map("/nonexistent/z"); }), HasSubstr("'/nonexistent/z'"));
}

TEST(ReadFile, ReadsFilesThatReportNoSize) {
  EXPECT_THAT(read_file("/proc/self/status"), HasSubstr("VmPeak"));
}

TEST(MappedFile, AnEmptyFileMapsToNothing) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "empty", "");
  EXPECT_TRUE(MappedFile(folder / "empty").bytes().empty());
}

// Reads the first byte of a mapped file whose bytes have gone.
void read_a_byte_that_is_gone(const std::filesystem::path& path) {
  explain_bus_errors();
  const MappedFile map(path);
  std::filesystem::resize_file(path, 0);
  volatile std::byte byte = map.bytes()[0];
  (void)byte;
}

TEST(MappedFileDeathTest, AFileThatWasMadeShorterEndsTheProgramWithItsName) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const TemporaryFolder folder;
  write_file_atomically(folder / "cut", std::string(10000, 'x'));
  EXPECT_EXIT(read_a_byte_that_is_gone(folder / "cut"),
              ::testing::ExitedWithCode(static_cast<int>(ExitCode::kIo)),
              "^error: '.*/cut' was made shorter while it was read; ");
  // A name that has gone as well, as of a scratch file: then only the disk is to blame.
  write_file_atomically(folder / "gone", std::string(10000, 'x'));
  EXPECT_EXIT(
      {
        explain_bus_errors();
        const MappedFile map(folder / "gone");
        std::filesystem::resize_file(folder / "gone", 0);
        std::filesystem::remove(folder / "gone");
        volatile std::byte byte = map.bytes()[9999];
        (void)byte;
      },
      ::testing::ExitedWithCode(static_cast<int>(ExitCode::kIo)),
      "^error: '.*/gone' cannot be read any more: ");
}

// A run of thousands of datasets maps several files of each.
TEST(MappedFileDeathTest, OneFileOfThousandsIsNamed) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const TemporaryFolder folder;
  write_file_atomically(folder / "other", std::string(10, 'x'));
  write_file_atomically(folder / "cut", std::string(10000, 'x'));
  EXPECT_EXIT(
      {
        std::vector<std::unique_ptr<MappedFile>> maps;
        for (int i = 0; i < 3000; ++i)
          maps.push_back(std::make_unique<MappedFile>(folder / "other"));
        maps.erase(maps.begin() + 100, maps.begin() + 200);
        read_a_byte_that_is_gone(folder / "cut");
      },
      ::testing::ExitedWithCode(static_cast<int>(ExitCode::kIo)),
      "^error: '.*/cut' was made shorter while it was read; ");
}

TEST(MappedFileDeathTest, OtherBusErrorsKillAsEver) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        explain_bus_errors();
        (void)std::raise(SIGBUS);
        (void)std::raise(SIGBUS);
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

TEST(RemoveFile, AcceptsAMissingFile) {
  const TemporaryFolder folder;
  EXPECT_NO_THROW(remove_file(folder / "nothing"));
}

// The code that a program started with this fault would see; 0 if nothing fails.
int error_with_fault_from_environment() {
  const TemporaryFolder folder;
  try {
    write_file_atomically(folder / "f", "text");
  } catch (const std::system_error& error) {
    return error.code().value();
  }
  return 0;
}

TEST(FaultHookDeathTest, IsSetByTheEnvironment) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // starts this program anew
  for (const auto& [value, error_number] :
       {std::pair("2", EIO), std::pair("3:28", ENOSPC), std::pair("100", 0)}) {
    ::setenv("WEFT_IO_FAIL_AT", value, 1);
    EXPECT_EXIT(std::exit(error_with_fault_from_environment()),
                ::testing::ExitedWithCode(error_number), "");
  }
  ::unsetenv("WEFT_IO_FAIL_AT");
}

// Two programs that write one file at a time do not disturb each other either.
TEST(WriteFileAtomically, LeavesFilesOfOthersAlone) {
  const TemporaryFolder folder;
  OutputFile(folder / "f.part").append("precious", 8);
  write_file_atomically(folder / "f", "text");
  EXPECT_THAT(folder.file_names(), ::testing::UnorderedElementsAre("f", "f.part"));
  EXPECT_EQ(read_file(folder / "f.part"), "precious");
  const OutputFile first = OutputFile::create_part(folder / "f"),
                   second = OutputFile::create_part(folder / "f", /*is_private=*/true);
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(first.path().string().size(), (folder / "f").string().size() + kPartNameBytes);
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(second.path()).permissions(),
            perms::owner_read | perms::owner_write);
}

TEST(WriteFileAtomically, KeepsTheOldContentWhicheverCallFails) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "f", "old");
  int num_failures = 0;
  for (int64_t fail_at = 1;; ++fail_at) {
    set_io_fault(fail_at, ENOSPC);
    const std::string message = message_of([&] { write_file_atomically(folder / "f", "new"); });
    set_io_fault(0, 0);
    if (message == "(nothing was thrown)") break;
    ++num_failures;
    EXPECT_THAT(message, HasSubstr("No space left on device"));
    EXPECT_THAT(folder.file_names(), ::testing::ElementsAre("f"));
    // Only the sync of the folder comes after the rename.
    EXPECT_THAT(read_file(folder / "f"), ::testing::AnyOf("old", "new"));
    write_file_atomically(folder / "f", "old");
  }
  EXPECT_EQ(num_failures, 7);  // open, write, sync, close, rename, open and sync of the folder
  EXPECT_EQ(read_file(folder / "f"), "new");
}

}  // namespace
}  // namespace weft
