// Where rank 0 listens: a small JSON file in the run's work folder, on the file system that all
// ranks share. It holds the run's secret, so only its owner may read it (mode 0600).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "preprocess/ledger/message_socket.h"

namespace weft {

constexpr const char* kCoordinatorFileName = "coordinator.json";

struct CoordinatorAddress {
  std::string launch_id;  // RankEnvironment::launch_id of rank 0
  std::string host;       // name of its machine, for people
  std::vector<std::string> addresses;
  uint16_t port = 0;
  RunSecret secret{};
  bool operator==(const CoordinatorAddress&) const = default;
};

// Complete or absent, mode 0600. Throws std::system_error.
void publish_coordinator(const std::filesystem::path& folder, const CoordinatorAddress& address);
// Removes it; for a clean end.
void withdraw_coordinator(const std::filesystem::path& folder);

// Nothing when there is none, when it is not whole or not one of ours (`problem` then says why).
// The file is another process's word: sizes are bounded.
std::optional<CoordinatorAddress> find_coordinator(const std::filesystem::path& folder,
                                                   std::string& problem);

}  // namespace weft
