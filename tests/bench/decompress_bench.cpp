// MB/s of our decoders beside the command-line tools, for each file given: best of --repeat runs,
// in decompressed bytes (10^6) per second of processor time and of wall time. Nothing is written:
// the tools write to /dev/null.
//
// usage: weft_decompress_bench [--repeat N] [--threads N] FILE...
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "preprocess/compressed/input_layout.h"

extern char** environ;

namespace weft {
namespace {

struct Seconds {
  double processor = 1e9, wall = 1e9;
};

double processor_seconds(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Seconds best_of(int num_repeats, int who, const std::function<void()>& run) {
  Seconds best;
  for (int i = 0; i < num_repeats; ++i) {
    const double processor = processor_seconds(who);
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    best.wall = std::min(best.wall, wall.count());
    best.processor = std::min(best.processor, processor_seconds(who) - processor);
  }
  return best;
}

int64_t read_range(const std::string& path, const InputLayout& layout, size_t first_part,
                   size_t last_part, bool read_ahead) {
  const std::atomic<bool> cancelled{false};
  const int64_t end =
      last_part < layout.part_begins.size() ? layout.part_begins[last_part] : layout.file_bytes;
  const auto source = open_input_range(path, layout, layout.part_begins[first_part], end, cancelled,
                                       {.read_ahead = read_ahead});
  std::vector<char> buffer(1 << 20);
  int64_t num_bytes = 0;
  while (const size_t got = source->read(buffer.data(), buffer.size()))
    num_bytes += static_cast<int64_t>(got);
  return num_bytes;
}

int64_t read_parts(const std::string& path, const InputLayout& layout, int num_threads) {
  std::atomic<size_t> next_part{0};
  std::atomic<int64_t> num_bytes{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < num_threads; ++i) {
    threads.emplace_back([&] {
      for (size_t part; (part = next_part++) < layout.part_begins.size();)
        num_bytes += read_range(path, layout, part, part + 1, false);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return num_bytes;
}

void run_tool(const std::string& tool, const std::string& path) {
  std::string name = tool, option = "-dc", file = path;
  char* arguments[] = {name.data(), option.data(), file.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, tool.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (error != 0 || ::waitpid(child, &status, 0) != child || status != 0)
    throw std::runtime_error(tool + " failed on " + path);
}

void print_row(const std::string& what, int64_t num_bytes, const Seconds& seconds,
               const Seconds& tool) {
  const double mb = double(num_bytes) / 1e6;
  std::printf("| %s | %.0f | %.0f | %.2f | %.2f |\n", what.c_str(), mb / seconds.processor,
              mb / seconds.wall, tool.processor / seconds.processor, tool.wall / seconds.wall);
}

void measure(const std::string& path, int num_repeats, int num_threads) {
  static const std::map<std::string, std::string> kTools = {
      {"gzip", "gzip"}, {"xz", "xz"}, {"zstd", "zstd"}, {"bzip2", "bzip2"}};
  const InputLayout layout = input_layout(path);
  const size_t num_parts = layout.part_begins.size();
  const auto tool_name = kTools.find(layout.format);
  if (tool_name == kTools.end()) throw std::runtime_error(path + ": not compressed");
  const std::string file = path.substr(path.rfind('/') + 1);
  const Seconds tool =
      best_of(num_repeats, RUSAGE_CHILDREN, [&] { run_tool(tool_name->second, path); });
  int64_t num_bytes = 0;
  const Seconds ours = best_of(num_repeats, RUSAGE_SELF,
                               [&] { num_bytes = read_range(path, layout, 0, num_parts, false); });
  print_row(file + ": " + tool_name->second + " -dc", num_bytes, tool, tool);
  print_row(file + ": Weft, in the thread that reads", num_bytes, ours, tool);
  if (num_parts == 1) {
    print_row(
        file + ": Weft, read ahead", num_bytes,
        best_of(num_repeats, RUSAGE_SELF, [&] { read_range(path, layout, 0, num_parts, true); }),
        tool);
  } else {
    print_row(file + ": Weft, " + std::to_string(num_parts) + " parts, " +
                  std::to_string(num_threads) + " threads",
              num_bytes,
              best_of(num_repeats, RUSAGE_SELF,
                      [&] {
                        if (read_parts(path, layout, num_threads) != num_bytes)
                          throw std::runtime_error(path + ": the parts are not the whole");
                      }),
              tool);
  }
}

}  // namespace
}  // namespace weft

int main(int num_arguments, char** arguments) {
  int num_repeats = 3, num_threads = 2;
  std::vector<std::string> paths;
  for (int i = 1; i < num_arguments; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--repeat" && i + 1 < num_arguments) {
      num_repeats = std::max(1, std::atoi(arguments[++i]));
    } else if (argument == "--threads" && i + 1 < num_arguments) {
      num_threads = std::max(1, std::atoi(arguments[++i]));
    } else {
      paths.push_back(argument);
    }
  }
  if (paths.empty()) {
    std::fprintf(stderr, "usage: weft_decompress_bench [--repeat N] [--threads N] FILE...\n");
    return 2;
  }
  std::printf(
      "| file | MB per processor second | MB/s | of the tool's, processor | of the tool's |\n");
  std::printf("| --- | --- | --- | --- | --- |\n");
  try {
    for (const std::string& path : paths) weft::measure(path, num_repeats, num_threads);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
