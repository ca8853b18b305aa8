// Runs of weft-train, a process each, with a small model on a small dataset.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/run_record/manifest_checksum.h"
#include "tests/trainer/tiny_dataset.h"

namespace weft {

class Training : public testing::Test {
 protected:
  using Arguments = std::vector<std::string>;

  void SetUp() override {
    ASSERT_NE(std::getenv("WEFT_BIN_DIR"), nullptr)
        << "set it to the folder of weft-train, or run ctest";
  }

  static Arguments words(const std::string& line) {
    std::istringstream in(line);
    return {std::istream_iterator<std::string>(in), {}};
  }
  static Arguments with(Arguments all, const Arguments& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // Returns the arguments of a run of `num_iterations` steps in `run`, which resumes if it can.
  Arguments arguments(const std::string& run, int64_t num_iterations = 30,
                      const Arguments& more = {}) const {
    const std::string folder = (folder_ / run).string();
    Arguments all = words(
        "--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 "
        "--max-position-embeddings 16 --micro-batch-size 2 --global-batch-size 8 --lr 5e-3 "
        "--lr-warmup-iters 3 --lr-decay-style cosine --min-lr 5e-4 --vocab-size 64 "
        "--eval-iters 1 --eval-interval 10 --log-interval 1 --save-interval 5 --device cpu "
        "--log-format megatron-2021");
    return with(all, with({"--train-iters", std::to_string(num_iterations), "--data-path", prefix_,
                           "--split", "90,5,5", "--save", folder, "--load", folder,
                           "--tensorboard-dir", folder + "/tb"},
                          more));
  }

  pid_t start(Arguments all) {
    all.insert(all.begin(), std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-train");
    return start_program(std::move(all));
  }
  // Starts a program, whose path is the first word of `command`; output() is what it prints.
  pid_t start_program(Arguments command) {
    const std::string out = (folder_ / "out").string();
    const pid_t child = fork();
    if (child == 0) {
      const int fd = open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
      dup2(fd, 1);
      dup2(fd, 2);
      std::vector<char*> argv;
      for (std::string& word : command) argv.push_back(word.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    return child;
  }
  // Returns the exit code, or 128 + signal.
  static int wait(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int run(const Arguments& all) { return wait(start(all)); }
  std::string output() const { return read_file(folder_ / "out"); }

  std::vector<nlohmann::json> metrics(const std::string& run) const {
    std::ifstream in(folder_ / (run + "/metrics.jsonl"));
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(in, line);) {
      nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
      if (!json.is_discarded()) lines.push_back(std::move(json));
    }
    return lines;
  }
  // Returns all numbers of a run that must not depend on its interruptions; times are left out. The
  // last one is the file with the losses of samples.
  std::vector<std::string> trajectory(const std::string& run) const {
    std::vector<std::string> lines;
    for (nlohmann::json line : metrics(run)) {
      for (const char* key :
           {"elapsed_ms", "forward_ms", "backward_ms", "optimizer_ms", "exchange_ms", "timestamp",
            "tokens_per_second", "tflops_per_device", "mfu", "memory_bytes"})
        line.erase(key);
      lines.push_back(line.dump());
    }
    const std::filesystem::path losses = folder_ / (run + "/sample_losses.bin");
    lines.push_back(std::filesystem::exists(losses) ? read_file(losses) : "none");
    return lines;
  }
  std::string tracker(const std::string& run) const {
    const std::string text = read_file(folder_ / (run + "/latest_checkpointed_iteration.txt"));
    return text.substr(0, text.find('\n'));
  }
  // Changes what a checkpoint tells of itself.
  void edit_checkpoint(const std::string& run, int64_t iteration,
                       const std::function<void(nlohmann::ordered_json& info)>& edit) const {
    char name[32];
    std::snprintf(name, sizeof name, "iter_%07d", static_cast<int>(iteration));
    const std::filesystem::path path = folder_ / run / name / "manifest.json";
    auto manifest = nlohmann::ordered_json::parse(read_file(path));
    take_checksum(manifest, path);
    edit(manifest.at("info"));
    add_checksum(manifest);
    write_file_atomically(path, manifest.dump());
  }
  // Changes what a run's folder tells of it, as if weft-train had written it so.
  void edit_run_manifest(const std::string& run,
                         const std::function<void(nlohmann::ordered_json& manifest)>& edit) const {
    const std::filesystem::path path = folder_ / run / "run_manifest.json";
    auto manifest = nlohmann::ordered_json::parse(read_file(path));
    take_checksum(manifest, path);
    edit(manifest);
    add_checksum(manifest);
    write_file_atomically(path, manifest.dump());
  }
  // Makes the checkpoint one that does not list the segments of its run.
  void forget_segments(const std::string& run, int64_t iteration) const {
    edit_checkpoint(run, iteration, [](nlohmann::ordered_json& info) {
      EXPECT_EQ(info.erase("run_segments"), 1U);
    });
  }
  // Waits until the run has logged `iteration`, or has ended.
  void wait_for_iteration(const std::string& run, int64_t iteration, pid_t child) const {
    for (int i = 0; i < 60'000; ++i) {
      const auto lines = metrics(run);
      if (!lines.empty() && lines.back().value("iteration", int64_t{0}) >= iteration) return;
      siginfo_t info{};
      if (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
          info.si_pid == child)
        return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    FAIL() << "iteration " << iteration << " never came:\n" << output();
  }

  TemporaryFolder folder_;
  std::string prefix_ = write_tiny_dataset(folder_ / "tiny");
};

}  // namespace weft
