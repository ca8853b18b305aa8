#include "preprocess/ledger/run_ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "indexed_dataset/process/exit_code.h"
#include "preprocess/ledger/coordinator_file.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// Ranks of one job start within seconds of each other; who waits longer wants to know why.
constexpr std::chrono::seconds kPatience{10};

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace

RankServer::RankServer(const RunRanks& ranks, LocalLedger& host,
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

std::unique_ptr<LedgerClient> join_run(const RunRanks& ranks, const WaitingRank& waiting) {
  struct Finished {};
  LedgerClientOptions options;
  options.folder = ranks.folder;
  options.rank = ranks.environment.rank;
  options.num_ranks = ranks.environment.num_ranks;
  options.launch_id = ranks.environment.launch_id;
  options.configuration = ranks.configuration;
  options.peer_timeout = ranks.peer_timeout;
  const auto patience = std::min<std::chrono::milliseconds>(ranks.peer_timeout, kPatience);
  const auto start = Clock::now();
  bool is_noted = false;
  options.stop_requested = waiting.stop_requested;
  options.is_over = waiting.is_over;
  options.while_waiting = [&](const std::string& problem) {
    // Rank 0 may have found that all is done, and never listen.
    if (waiting.is_finished()) throw Finished();
    if (Clock::now() - start < patience) return;
    waiting.check_rank_0_can_begin();
    if (is_noted) return;
    is_noted = true;
    waiting.note(fmt::format("rank {} waits for rank 0, up to {} s: {}", options.rank,
                             options.start_timeout / std::chrono::seconds(1), problem));
  };
  try {
    return std::make_unique<LedgerClient>(options);
  } catch (const Finished&) {
    return nullptr;
  } catch (const PeerLost&) {
    if (waiting.stop_requested()) throw RankStopped();
    throw;
  }
}

}  // namespace weft
