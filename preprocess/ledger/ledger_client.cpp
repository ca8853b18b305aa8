#include "preprocess/ledger/ledger_client.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "preprocess/datasets/json_integer.h"
#include "preprocess/ledger/coordinator_file.h"
#include "preprocess/ledger/ledger_messages.h"
#include "preprocess/ledger/ledger_server.h"

namespace weft {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// One address of rank 0 may lead nowhere (another network): the next one is tried after this.
constexpr milliseconds kTimePerAddress{3'000};
constexpr milliseconds kPause{100};

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0) return "?";
  return name;
}

std::string random_name() {
  const RunSecret random = make_run_secret();
  std::string name;
  for (size_t i = 0; i < 16; ++i) name += "0123456789abcdef"[random[i] & 15];
  return name;
}

std::string seconds(milliseconds time) { return std::to_string(time.count() / 1000) + " s"; }

// The listener's answer to a hello. Throws what it stands for.
void check_answer(const std::string& answer) {
  int exit_code = 0;
  std::string message;
  try {
    const nlohmann::json json = nlohmann::json::parse(answer);
    exit_code = json_integer<int>(json.at("exit_code"));
    if (exit_code != 0) message = json.at("message").get<std::string>();
  } catch (const std::exception&) {
    throw ConnectionLost("who answers is not rank 0 of this run");
  }
  if (exit_code == static_cast<int>(ExitCode::kConfigurationDiffers)) {
    throw ConfigurationDiffers(message);
  }
  if (exit_code != 0) throw PeerLost(message);
}

}  // namespace

LedgerClient::LedgerClient(LedgerClientOptions options)
    : options_(std::move(options)), incarnation_(random_name()) {
  join(steady_clock::now() + options_.start_timeout, options_.while_waiting);
  keep_alive_thread_ = std::thread([this] { keep_alive(); });
}

LedgerClient::~LedgerClient() {
  {
    const std::lock_guard lock(stop_mutex_);
    stop_ = true;
  }
  stop_changed_.notify_all();
  keep_alive_thread_.join();
  if (!socket_) return;
  try {
    socket_->send(std::string(1, kLeaveMessage), steady_clock::now() + kTimePerAddress);
  } catch (const std::exception&) {
    // Then rank 0 notices by itself.
  }
}

LedgerReply LedgerClient::exchange(const LedgerRequest& request) {
  const std::string message = kRequestMessage + to_message(request);
  const std::lock_guard lock(mutex_);
  const Deadline deadline = steady_clock::now() + options_.peer_timeout;
  const auto check_is_over = [&](const std::string& problem) {
    if (options_.is_over && options_.is_over()) throw PeerLost("rank 0 has ended: " + problem);
  };
  for (;;) {
    if (lost_) throw PeerLost(*lost_);
    try {
      if (!socket_) join(deadline, check_is_over);
      socket_->send(message, deadline);
      const std::string reply = socket_->receive(deadline);
      if (reply.empty() || reply[0] != kReplyMessage) throw ConnectionLost("no reply of rank 0");
      return ledger_reply_from(std::string_view(reply).substr(1));
    } catch (const ConnectionLost& error) {
      // Said again on the next connection; rank 0 knows the number of a request it has answered.
      socket_.reset();
      if (steady_clock::now() < deadline) continue;
      lost_ = "rank 0 does not answer for " + seconds(options_.peer_timeout) + " (" + error.what() +
              "); run the same command again to go on, what was done is kept";
    } catch (const PeerLost& error) {
      lost_ = error.what();
    }
  }
}

// Called with mutex_ held, or before there are other threads.
void LedgerClient::join(Deadline deadline,
                        const std::function<void(const std::string&)>& while_waiting) {
  std::string problem;
  do {
    if (is_cancelled()) throw PeerLost("stopped while waiting for rank 0");
    if (try_join(problem, deadline)) return;
    if (while_waiting) while_waiting(problem);
    pause(kPause);
  } while (steady_clock::now() < deadline);
  throw PeerLost(
      "rank " + std::to_string(options_.rank) + " cannot reach rank 0: " + problem +
      "; do all ranks run, and do they see the same folder? Run the same command again to go on, "
      "what was done is kept");
}

// False for what may change: no file yet, one of an earlier run, nobody there.
bool LedgerClient::try_join(std::string& problem, Deadline deadline) {
  std::optional<CoordinatorAddress> found = find_coordinator(options_.folder, problem);
  if (!found) return false;
  if (!options_.launch_id.empty() && !found->launch_id.empty() &&
      options_.launch_id != found->launch_id) {
    problem = std::string(kCoordinatorFileName) + " in the work folder is of another start (" +
              found->launch_id + ", not " + options_.launch_id + ")";
    return false;
  }
  std::vector<std::string> addresses = std::move(found->addresses);
  if (!found->host.empty()) addresses.push_back(found->host);
  for (const std::string& address : addresses) {
    const Deadline soon = std::min(deadline, steady_clock::now() + kTimePerAddress);
    try {
      MessageSocket socket = MessageSocket::connect(address, found->port, soon);
      socket.send(make_hello(found->secret, hello()), soon);
      check_answer(socket.receive(soon));
      socket_ = std::move(socket);
      return true;
    } catch (const ConnectionLost& error) {
      problem = error.what();
    }
  }
  return false;
}

std::string LedgerClient::hello() const {
  const nlohmann::json json = {
      {"rank", options_.rank},       {"num_ranks", options_.num_ranks},
      {"incarnation", incarnation_}, {"host", host_name()},
      {"process", ::getpid()},       {"configuration", options_.configuration}};
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

void LedgerClient::pause(milliseconds time) {
  std::unique_lock lock(stop_mutex_);
  stop_changed_.wait_for(lock, time, [this] { return stop_; });
}

// Ranks may read a long task without a word to the ledger; that they live is said here. Also makes
// a broken connection anew before rank 0 gives this rank up.
void LedgerClient::keep_alive() {
  const milliseconds interval =
      std::min<milliseconds>(options_.peer_timeout / 8, milliseconds(5'000));
  for (;;) {
    pause(interval);
    {
      const std::lock_guard stop_lock(stop_mutex_);
      if (stop_) return;
    }
    const std::lock_guard lock(mutex_);
    if (lost_) return;
    try {
      const Deadline deadline = steady_clock::now() + interval;
      std::string problem;
      if (socket_) {
        socket_->send(std::string(1, kHeartbeatMessage), deadline);
      } else {
        try_join(problem, deadline);
      }
    } catch (const ConnectionLost&) {
      socket_.reset();
    } catch (const std::exception& error) {
      lost_ = error.what();  // the next exchange() says it
    }
  }
}

}  // namespace weft
