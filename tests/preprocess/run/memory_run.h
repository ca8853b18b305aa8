// Runs of weft-data whose memory is measured, or limited by a control group.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"

namespace weft {

// A control group (v1 or v2) whose processes get so much memory and no swap. Removed by the
// destructor: its processes must have ended.
class MemoryGroup {
 public:
  // Nothing, and why in `reason`, where no group can be made: no rights, no controller.
  static std::optional<MemoryGroup> make(int64_t limit_bytes, std::string& reason);
  MemoryGroup(MemoryGroup&& other) noexcept : folder_(std::exchange(other.folder_, {})) {}
  MemoryGroup& operator=(MemoryGroup&&) = delete;
  ~MemoryGroup();
  // A process that writes its number there is in the group.
  std::string processes_file() const { return folder_ + "/cgroup.procs"; }

 private:
  explicit MemoryGroup(std::string folder) : folder_(std::move(folder)) {}
  bool set_limit(int64_t limit_bytes) const;

  std::string folder_;
};

class MemoryRun : public ::testing::Test {
 protected:
  // Learns a vocabulary of 300 entries: tokens are one or two bytes.
  void SetUp() override;
  std::string path(const std::string& name) const { return folder_.path() / name; }

  // One line of about so many bytes: `head`, `unit` again and again, `tail`.
  void write_line(const std::string& name, const std::string& unit, int64_t size_bytes,
                  const std::string& head = R"({"text": ")",
                  const std::string& tail = R"("})") const;
  // Documents of random letters and digits: hardly a word is known, tokens are short.
  void write_lines(const std::string& name, int num_lines, size_t line_bytes);
  std::string random_characters(const std::string& alphabet, size_t count);

  struct End {
    int exit_code = -1;
    int64_t peak_mib = 0;
    std::string log;
  };
  End run(std::vector<std::string> arguments, const MemoryGroup* group = nullptr) const;
  // preprocess of one input to out_text_document.bin and .idx.
  End preprocess(const std::string& input, int num_workers, const MemoryGroup* group = nullptr,
                 const std::vector<std::string>& options = {}) const;

  TemporaryFolder folder_;
  std::string program_;
  std::mt19937 random_{1};
};

}  // namespace weft
