#include "preprocess/run_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

#include "preprocess/coordinator_file.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace

RankServer::RankServer(const RunRanks& ranks, LedgerHost& host,
                       std::function<void(const std::string&)> note)
    : ranks_(ranks) {
  LedgerServerOptions options;
  options.secret = make_run_secret();
  options.num_ranks = ranks.environment.num_ranks;
  options.configuration = ranks.configuration;
  options.peer_timeout = ranks.peer_timeout;
  options.answer = [&host](int rank, const LedgerRequest& request) {
    return host.answer(rank, request);
  };
  options.rank_lost = [&host](int rank) { host.rank_lost(rank); };
  options.note = std::move(note);
  server_ = std::make_unique<LedgerServer>(options);
  publish_coordinator(ranks.folder, {ranks.environment.launch_id, host_name(), server_->addresses(),
                                     server_->port(), options.secret});
}

RankServer::~RankServer() {
  try {
    withdraw_coordinator(ranks_.folder);
  } catch (const std::exception&) {
    // Whoever finds the file finds nobody listening, and knows what that means.
  }
}

void RankServer::let_all_leave() {
  // Ranks ask ten times a second; one that starts late has yet to come.
  server_->wait_until_all_left(Clock::now() + std::min<std::chrono::milliseconds>(
                                                  ranks_.peer_timeout, std::chrono::seconds(30)));
}

std::unique_ptr<LedgerClient> join_run(const RunRanks& ranks,
                                       const std::function<bool()>& is_finished,
                                       const std::function<bool()>& stop_requested,
                                       const std::atomic<bool>& cancelled) {
  LedgerClientOptions options;
  options.folder = ranks.folder;
  options.rank = ranks.environment.rank;
  options.num_ranks = ranks.environment.num_ranks;
  options.launch_id = ranks.environment.launch_id;
  options.configuration = ranks.configuration;
  options.peer_timeout = ranks.peer_timeout;
  options.cancelled = &cancelled;
  // Rank 0 may find that all is done, and never listen.
  const auto deadline = Clock::now() + options.start_timeout;
  std::string problem;
  while (Clock::now() < deadline && !stop_requested()) {
    if (is_finished()) return nullptr;
    const auto found = find_coordinator(ranks.folder, problem);
    if (found && found->launch_id == ranks.environment.launch_id) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return std::make_unique<LedgerClient>(options);
}

}  // namespace weft
