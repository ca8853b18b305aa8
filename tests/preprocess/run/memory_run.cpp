#include "tests/preprocess/run/memory_run.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

namespace weft {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool write_text(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_written = ::write(fd, text.data(), text.size()) == std::ssize(text);
  ::close(fd);
  return is_written;
}

bool has_memory_option(const std::string& options) {
  return ("," + options + ",").find(",memory,") != std::string::npos;
}

// Where groups may be made: this process's own, then the root, of the hierarchies that can limit
// memory.
std::vector<std::string> parent_folders() {
  std::vector<std::string> parents;
  std::istringstream mounts(content_of("/proc/mounts"));
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string device, folder, type, options;
    fields >> device >> folder >> type >> options;
    const bool is_v1 = type == "cgroup" && has_memory_option(options);
    const bool is_v2 =
        type == "cgroup2" &&
        content_of(folder + "/cgroup.controllers").find("memory") != std::string::npos;
    if (!is_v1 && !is_v2) continue;
    std::istringstream own(content_of("/proc/self/cgroup"));
    for (std::string entry; std::getline(own, entry);) {  // "4:memory:/a" or "0::/a"
      const size_t first = entry.find(':'), second = entry.find(':', first + 1);
      if (second == entry.npos) continue;
      const std::string controllers = entry.substr(first + 1, second - first - 1);
      if (is_v1 ? !has_memory_option(controllers) : !controllers.empty()) continue;
      parents.push_back(folder + entry.substr(second + 1));
    }
    parents.push_back(folder);
  }
  return parents;
}

}  // namespace

std::optional<MemoryGroup> MemoryGroup::make(int64_t limit_bytes, std::string& reason) {
  static int num_made = 0;
  reason = "no memory controller of control groups is mounted";
  for (const std::string& parent : parent_folders()) {
    const std::string folder =
        parent + "/weft_test." + std::to_string(::getpid()) + "." + std::to_string(++num_made);
    if (::mkdir(folder.c_str(), 0700) != 0) {
      reason = "no control group can be made in " + parent + ": " + std::strerror(errno);
      continue;
    }
    MemoryGroup group(folder);
    if (group.set_limit(limit_bytes)) return group;
    reason = folder + " has no memory limit";
  }
  return std::nullopt;
}

bool MemoryGroup::set_limit(int64_t limit_bytes) const {
  const std::string limit = std::to_string(limit_bytes);
  (void)write_text(folder_ + "/memory.swap.max", "0");
  if (write_text(folder_ + "/memory.max", limit)) return true;
  if (!write_text(folder_ + "/memory.limit_in_bytes", limit)) return false;
  (void)write_text(folder_ + "/memory.memsw.limit_in_bytes", limit);
  (void)write_text(folder_ + "/memory.swappiness", "0");
  return true;
}

MemoryGroup::~MemoryGroup() {
  if (folder_.empty()) return;
  // A process that has just ended may be counted for a moment.
  for (int i = 0; i < 1000 && ::rmdir(folder_.c_str()) != 0 && errno == EBUSY; ++i) ::usleep(10000);
}

void MemoryRun::SetUp() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  const char* folder = std::getenv("WEFT_BIN_DIR");
  ASSERT_NE(folder, nullptr);
  program_ = std::string(folder) + "/weft-data";
  write_lines("vocabulary.jsonl", 20, 200);
  const End end = run({"train-vocab", "--input", path("vocabulary.jsonl"), "--vocab-size", "300",
                       "--output", path("gpt2")});
  ASSERT_EQ(end.exit_code, 0) << end.log;
}

void MemoryRun::write_line(const std::string& name, const std::string& unit, int64_t size_bytes,
                           const std::string& head, const std::string& tail) const {
  std::string block = unit;
  while (block.size() < size_t{1} << 20) block += unit;
  std::ofstream file(path(name), std::ios::binary);
  file << head;
  for (int64_t i = size_bytes / std::ssize(block); i > 0; --i) file << block;
  file << tail << "\n";
  ASSERT_TRUE(file.flush());
}

std::string MemoryRun::random_characters(const std::string& alphabet, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += alphabet[random_() % alphabet.size()];
  return text;
}

void MemoryRun::write_lines(const std::string& name, int num_lines, size_t line_bytes) {
  const std::string text =
      random_characters("etaoin shrdlu,123 ", std::min<size_t>(line_bytes, 1 << 20));
  std::ofstream file(path(name), std::ios::binary);
  for (int i = 0; i < num_lines; ++i) {
    file << R"({"text": ")";
    for (size_t rest = line_bytes; rest > 0; rest -= std::min(rest, text.size())) {
      file.write(text.data(), static_cast<std::streamsize>(std::min(rest, text.size())));
    }
    file << "\"}\n";
  }
}

MemoryRun::End MemoryRun::run(std::vector<std::string> arguments, const MemoryGroup* group) const {
  arguments.insert(arguments.begin(), program_);
  if (group != nullptr) {
    arguments.insert(arguments.begin(),
                     {"/bin/sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", group->processes_file()});
  }
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  const std::string log = path("log");
  ::posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = -1;
  EXPECT_EQ(::posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ), 0);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  rusage usage{};
  EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, usage.ru_maxrss / 1024, content_of(log)};
}

MemoryRun::End MemoryRun::preprocess(const std::string& input, int num_workers,
                                     const MemoryGroup* group,
                                     const std::vector<std::string>& options) const {
  std::vector<std::string> arguments = {"preprocess",    "--input",
                                        path(input),     "--output-prefix",
                                        path("out"),     "--overwrite",
                                        "--vocab-file",  path("gpt2/vocab.json"),
                                        "--merge-file",  path("gpt2/merges.txt"),
                                        "--on-bad-line", "skip",
                                        "--workers",     std::to_string(num_workers)};
  arguments.insert(arguments.end(), options.begin(), options.end());
  End end = run(arguments, group);
  std::printf("%s, %d workers: at most %lld MiB\n", input.c_str(), num_workers,
              static_cast<long long>(end.peak_mib));
  return end;
}

}  // namespace weft
