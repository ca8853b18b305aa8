// The memory of weft-data preprocess: at most 256 MiB and 64 MiB for each worker, whatever it
// reads.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/preprocess/compressors.h"
#include "tests/preprocess/temporary_folder.h"

namespace weft {
namespace {

class Memory : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers take memory of their own";
#endif
    const char* folder = std::getenv("WEFT_BIN_DIR");
    ASSERT_NE(folder, nullptr);
    program_ = std::string(folder) + "/weft-data";
    write_lines("vocabulary.jsonl", 20, 200);
    ASSERT_EQ(run({"train-vocab", "--input", path("vocabulary.jsonl"), "--vocab-size", "300",
                   "--output", path("gpt2")})
                  .exit_code,
              0);
  }

  std::string path(const std::string& name) const { return folder_.path() / name; }

  // Documents of random letters and digits: hardly a word is known, tokens are short.
  void write_lines(const std::string& name, int num_lines, size_t line_bytes) {
    std::ofstream file(path(name), std::ios::binary);
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(line_bytes, 1 << 20); ++i) {
      text += "etaoin shrdlu,123 "[random_() % 18];
    }
    for (int i = 0; i < num_lines; ++i) {
      file << R"({"text": ")";
      for (size_t rest = line_bytes; rest > 0; rest -= std::min(rest, text.size())) {
        file.write(text.data(), static_cast<std::streamsize>(std::min(rest, text.size())));
      }
      file << "\"}\n";
    }
  }
  // Members, streams or frames of zeros, one after another.
  void write_bomb(const std::string& name, const std::string& format) const {
    const std::string part = compressed_zeros(format, int64_t{20} << 20);
    std::ofstream file(path(name), std::ios::binary);
    for (int i = 0; i < 20; ++i) file << part;
  }

  struct End {
    int exit_code = -1;
    int64_t peak_mib = 0;
  };
  End run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), program_);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    const std::string log = path("log");
    ::posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                       0600);
    ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t child = -1;
    EXPECT_EQ(::posix_spawn(&child, program_.c_str(), &actions, nullptr, argv.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    rusage usage{};
    EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, usage.ru_maxrss / 1024};
  }

  void expect_bounded(const std::string& input, int num_workers, int exit_code = 0) const {
    const End end = run({"preprocess", "--input", path(input), "--output-prefix", path("out"),
                         "--overwrite", "--vocab-file", path("gpt2/vocab.json"), "--merge-file",
                         path("gpt2/merges.txt"), "--on-bad-line", "skip", "--workers",
                         std::to_string(num_workers), "--max-output", "350000000"});
    std::ifstream log(path("log"));
    const std::string text((std::istreambuf_iterator<char>(log)), std::istreambuf_iterator<char>());
    EXPECT_EQ(end.exit_code, exit_code) << text;
    std::printf("%s, %d workers: at most %lld MiB\n", input.c_str(), num_workers,
                static_cast<long long>(end.peak_mib));
    EXPECT_LE(end.peak_mib, 256 + 64 * num_workers) << input;
  }

  TemporaryFolder folder_;
  std::string program_;
  std::mt19937 random_{1};
};

TEST_F(Memory, OfOrdinaryLines) {
  write_lines("ordinary", 20'000, 1'000);
  expect_bounded("ordinary", 1);
  expect_bounded("ordinary", 4);
}

TEST_F(Memory, OfALineOf60MiB) {
  write_lines("line of 60 MiB", 1, size_t{60} << 20);
  expect_bounded("line of 60 MiB", 1);
  expect_bounded("line of 60 MiB", 4);
}

TEST_F(Memory, OfManyLinesOf10MiB) {
  write_lines("lines of 10 MiB", 10, size_t{10} << 20);
  expect_bounded("lines of 10 MiB", 4);
}

TEST_F(Memory, OfBombs) {
  for (const char* format : {"gzip", "xz", "zstd", "bzip2"}) {
    const std::string name = std::string("bomb of ") + format;
    write_bomb(name, format);
    expect_bounded(name, 1, 9);
  }
}

}  // namespace
}  // namespace weft
