#include "trainer/ranks/host_group.h"

#include <unistd.h>

namespace weft {
namespace {

class LoneHostGroup final : public HostGroup {
 public:
  LoneHostGroup() {
    char host[256] = "localhost";
    ::gethostname(host, sizeof host - 1);
    host_ = host;
  }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string name_of(int rank) const override {
    return "rank " + std::to_string(rank) + " (" + host_ + ")";
  }
  const std::string& host_of(int /*rank*/) const override { return host_; }
  std::vector<std::string> gather(std::string_view mine) override { return {std::string(mine)}; }
  std::vector<std::string> all_gather(std::string_view mine) override {
    return {std::string(mine)};
  }
  void max(std::span<int64_t> /*values*/) override {}
  void exchange(std::span<const RankBuffer> /*buffers*/, int /*channel*/) override {}
  FlightRecorder& recorder() override { return recorder_; }
  void set_failure_folder(const std::filesystem::path& /*folder*/) override {}
  void end() override {}
  void fail(int /*exit_code*/, const std::string& /*message*/) override {}

 private:
  std::string host_;
  FlightRecorder recorder_;
};

}  // namespace

std::unique_ptr<HostGroup> create_lone_host_group() { return std::make_unique<LoneHostGroup>(); }

}  // namespace weft
