// The group of a process that is alone: a TransportGroup over a network of one.
#include <unistd.h>

#include <utility>

#include "trainer/ranks/transport_group.h"

namespace weft {
namespace {

class LoneTransport final : public RankTransport {
 public:
  LoneTransport() {
    char host[256] = "localhost";
    ::gethostname(host, sizeof host - 1);
    place_ = std::string(host) + ", process " + std::to_string(::getpid());
  }
  int rank() const override { return 0; }
  int num_ranks() const override { return 1; }
  const std::string& place_of(int /*rank*/) const override { return place_; }
  void send(int /*to*/, int /*tag*/, std::string /*bytes*/) override {}
  bool is_all_sent() override { return true; }
  std::optional<RankMessage> receive() override { return std::nullopt; }
  void exchange(std::span<const RankBuffer> /*buffers*/, int /*channel*/) override {}
  bool is_exchanged() override { return true; }
  void end() override {}
  // Destructors would wait for the device that hangs.
  void abort(int exit_code) override { ::_exit(exit_code); }

 private:
  std::string place_;
};

}  // namespace

std::unique_ptr<HostGroup> create_lone_host_group(TransportGroupOptions options) {
  return std::make_unique<TransportGroup>(std::make_unique<LoneTransport>(), std::move(options));
}

std::unique_ptr<HostGroup> create_lone_host_group() {
  return create_lone_host_group({.watches = false});
}

}  // namespace weft
