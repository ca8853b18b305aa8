// Ranks of weft-train that mpirun starts on this machine.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/trainer/training_run.h"

namespace weft {

class Ranks : public Training {
 protected:
  static void SetUpTestSuite() {
    // This machine only: neither ssh nor a network is asked for, ranks may outnumber processors.
    for (const auto& [name, value] : {std::pair{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                      {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                      {"OMPI_MCA_plm", "isolated"},
                                      {"OMPI_MCA_oob_tcp_if_include", "lo"},
                                      {"OMPI_MCA_btl", "self,vader,tcp"},
                                      {"OMPI_MCA_btl_tcp_if_include", "lo"},
                                      {"OMPI_MCA_pml", "ob1"},
                                      {"OMPI_MCA_mpi_yield_when_idle", "1"},
                                      {"OMP_NUM_THREADS", "1"}}) {
      setenv(name, value, 1);
    }
    has_mpirun_ = std::system("timeout 60 mpirun -n 2 true >/dev/null 2>&1 </dev/null") == 0;
  }
  void SetUp() override {
    Training::SetUp();
    if (!has_mpirun_) GTEST_SKIP() << "mpirun (openmpi-bin) cannot start two processes here";
  }

  // Starts ranks with the same arguments; the last one gets `of_last` too.
  pid_t start_ranks(int num_ranks, const Arguments& all, const Arguments& of_last = {}) {
    const std::string program = std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-train";
    Arguments command{"/usr/bin/env", "mpirun", "-n", std::to_string(num_ranks)};
    if (!of_last.empty()) command.back() = std::to_string(num_ranks - 1);
    command.push_back(program);
    command = with(command, all);
    if (!of_last.empty()) {
      command = with(with(command, {":", "-n", "1", program}), with(all, of_last));
    }
    return start_program(command);
  }
  int run_ranks(int num_ranks, const Arguments& all, const Arguments& of_last = {}) {
    return wait(start_ranks(num_ranks, all, of_last));
  }
  std::vector<double> losses(const std::string& run) const {
    std::vector<double> losses;
    for (const auto& line : metrics(run)) {
      if (line.contains("lm_loss")) losses.push_back(line.at("lm_loss"));
    }
    return losses;
  }
  void expect_near(const std::string& run, const std::string& expected,
                   double tolerance = 1e-5) const {
    const std::vector<double> a = losses(run), b = losses(expected);
    ASSERT_EQ(a.size(), b.size()) << output();
    ASSERT_FALSE(b.empty());
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(a[i], b[i], tolerance * b[i]) << run << " " << i;
  }
  int weft_model(Arguments command) {
    command.insert(command.begin(), std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-model");
    return wait(start_program(command));
  }
  // Of one topology: equal bits in every step and in the last checkpoint.
  void expect_equal_runs(const std::string& run, const std::string& expected) {
    EXPECT_EQ(trajectory(run), trajectory(expected));
    EXPECT_EQ(weft_model({"diff", "--first", (folder_ / run).string(), "--second",
                          (folder_ / expected).string()}),
              0)
        << output();
  }
  void expect_exports(const std::string& run) {
    const std::string exported = (folder_ / "exported").string();
    EXPECT_EQ(weft_model({"export", "--load", (folder_ / run).string(), "--output", exported,
                          "--no-tokenizer"}),
              0)
        << output();
    EXPECT_TRUE(std::filesystem::exists(exported + "/model.safetensors"));
  }
  // Makes the second of two ranks fail at `iteration`: puts a token that no vocabulary has into a
  // sample that it alone reads. Returns the arguments that a run needs for that.
  Arguments make_second_rank_fail_at(int64_t iteration) const {
    constexpr int64_t kGlobalBatch = 8, kMicroBatch = 2, kSequence = 16;  // those of arguments()
    const int64_t sample = (iteration - 1) * kGlobalBatch + kMicroBatch;
    std::fstream bin(prefix_ + ".bin", std::ios::binary | std::ios::in | std::ios::out);
    bin.seekp((sample * kSequence + kSequence / 2) * static_cast<int64_t>(sizeof(uint16_t)));
    bin.write("\xff\xff", sizeof(uint16_t));
    return {"--sample-order", "sequential"};
  }
  // The processes of the ranks, which mpirun has started itself; ascending.
  static std::vector<pid_t> ranks_of(pid_t mpirun) {
    std::vector<pid_t> ranks;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream stat(entry.path() / "stat");
      std::string text;
      std::getline(stat, text);
      const size_t name_end = text.rfind(')');
      if (name_end == std::string::npos || text.find("(weft-train)") == std::string::npos) continue;
      char state = 0;
      long parent = 0;
      std::istringstream(text.substr(name_end + 1)) >> state >> parent;
      if (parent == mpirun) ranks.push_back(std::stoi(entry.path().filename()));
    }
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }
  // Stops (SIGSTOP) the second of two ranks after some iterations and returns how the run ends.
  int stop_second_of_two(const std::string& run, const Arguments& all) {
    const pid_t mpirun =
        start_ranks(2, with(all, {"--eval-iters", "0", "--save-interval", "1000000",
                                  "--distributed-timeout-minutes", "0.05"}));
    wait_for_iteration(run, 3, mpirun);
    const std::vector<pid_t> ranks = ranks_of(mpirun);
    EXPECT_EQ(ranks.size(), 2U);
    if (ranks.size() == 2) kill(ranks[1], SIGSTOP);
    const int status = wait(mpirun);
    // The signals of mpirun may not reach a stopped process.
    if (ranks.size() == 2) kill(ranks[1], SIGKILL);
    return status;
  }
  static bool is_running(pid_t process) {
    std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
    std::string text;
    return std::getline(stat, text) &&
           text.substr(text.rfind(')')).find(" Z ") == std::string::npos;
  }
  static size_t count(const std::string& text, const std::string& word) {
    size_t n = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
    return n;
  }
  nlohmann::json failure(const std::string& run) const {
    return nlohmann::json::parse(read_file(folder_ / (run + "/failure.json")));
  }

  static inline bool has_mpirun_ = false;
};

}  // namespace weft
