#include "trainer/ranks/transport_group.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

// A list of texts as one text: each with its size before it.
std::string join(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined += std::to_string(text.size()) + ":" + text;
  return joined;
}

std::vector<std::string> split(const std::string& joined) {
  std::vector<std::string> texts;
  for (size_t at = 0; at < joined.size();) {
    const size_t colon = joined.find(':', at);
    const size_t size = std::stoull(joined.substr(at, colon - at));
    texts.push_back(joined.substr(colon + 1, size));
    at = colon + 1 + size;
  }
  return texts;
}

}  // namespace

TransportGroup::TransportGroup(std::unique_ptr<RankTransport> transport,
                               TransportGroupOptions options)
    : transport_(std::move(transport)),
      options_(std::move(options)),
      rank_(transport_->rank()),
      size_(transport_->num_ranks()),
      peers_(static_cast<size_t>(size_)),
      rounds_(static_cast<size_t>(rank_ == 0 ? size_ : 1)) {
  last_watched_ = Clock::now();
  for (Peer& peer : peers_) peer.last_heard = peer.last_told = last_watched_;
  if (options_.watches) thread_ = std::thread([this] { watch(); });
  gather_places();
}

TransportGroup::~TransportGroup() {
  if (thread_.joinable() && size_ > 1)
    fail(static_cast<int>(ExitCode::kInternalError), "it has ended without a word");
  stop_watching();
}

void TransportGroup::stop_watching() {
  {
    const Lock lock(mutex_);
    is_ending_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void TransportGroup::gather_places() {
  char host[256] = "?";
  ::gethostname(host, sizeof host - 1);
  const bool offers = rank_ == 0 && size_ > 1;
  const nlohmann::json mine = {host, machine_of_this_process(), ::getpid(),
                               offers ? connections_.offer() : ""};
  const std::vector<std::string> all = all_gather(mine.dump());
  {
    const Lock lock(mutex_);
    for (const std::string& text : all) {
      const auto json = nlohmann::json::parse(text);
      places_.push_back({json.at(0), json.at(1), json.at(2)});
    }
  }
  watch_places(nlohmann::json::parse(all.front()).at(3));
}

// Ranks of a machine watch each other's processes. The lowest rank of each other machine and rank 0
// watch a connection between them, so that rank 0 has one for each machine.
void TransportGroup::watch_places(const std::string& offer) {
  constexpr milliseconds kLongestConnect{3'000};
  const Place& own = places_[static_cast<size_t>(rank_)];
  for (size_t rank = 0; rank < places_.size(); ++rank) {
    const Place& place = places_[rank];
    if (place.machine != own.machine || place.process == own.process) continue;
    processes_.add(static_cast<int>(rank), place.process);
  }
  std::map<std::string, int> first_ranks{{places_.front().machine, 0}};  // by machine
  for (size_t rank = 1; rank < places_.size(); ++rank)
    first_ranks.emplace(places_[rank].machine, static_cast<int>(rank));
  if (rank_ == 0) {
    std::set<int> others;
    for (const auto& [machine, rank] : first_ranks) {
      if (rank != 0) others.insert(rank);
    }
    connections_.accept(others, kLongestConnect);
  } else if (first_ranks.at(own.machine) == rank_) {
    connections_.connect(offer, rank_, kLongestConnect);
  }
}

std::string TransportGroup::name_of(int rank) const {
  return "rank " + std::to_string(rank) + " (" + transport_->place_of(rank) + ")";
}

const std::string& TransportGroup::host_of(int rank) const {
  return places_.at(static_cast<size_t>(rank)).host;
}

// --- the calls of all ranks ---

std::vector<std::string> TransportGroup::gather(std::string_view mine) {
  std::vector<std::string> all;
  round("gather", std::string(mine), [&all](const std::vector<std::string>& by_rank) {
    all = by_rank;
    return std::string();
  });
  return all;
}

std::vector<std::string> TransportGroup::all_gather(std::string_view mine) {
  return split(round("gather", std::string(mine), join));
}

void TransportGroup::max(std::span<int64_t> values) {
  const size_t num_bytes = values.size_bytes();
  std::string mine(num_bytes, '\0');
  std::memcpy(mine.data(), values.data(), num_bytes);
  const std::string greatest =
      round("control", std::move(mine), [&](const std::vector<std::string>& by_rank) {
        std::vector<int64_t> result(values.begin(), values.end()), other(values.size());
        for (const std::string& text : by_rank) {
          if (text.size() != num_bytes) throw std::logic_error("ranks compare different numbers");
          std::memcpy(other.data(), text.data(), num_bytes);
          for (size_t i = 0; i < other.size(); ++i) result[i] = std::max(result[i], other[i]);
        }
        std::string text(num_bytes, '\0');
        std::memcpy(text.data(), result.data(), num_bytes);
        return text;
      });
  if (greatest.size() != num_bytes) throw std::logic_error("ranks compare different numbers");
  std::memcpy(values.data(), greatest.data(), num_bytes);
}

std::string TransportGroup::round(const char* name, std::string mine, const Combine& combine) {
  const FlightRecorder::Scope scope(recorder_, name);
  if (rank_ != 0) {
    {
      const Lock lock(mutex_);
      send(0, kRound, std::move(mine));
    }
    wait_until([this] { return !rounds_[0].empty(); });
    const Lock lock(mutex_);
    std::string result = std::move(rounds_[0].front());
    rounds_[0].pop_front();
    return result;
  }
  wait_until([this] {
    return std::all_of(rounds_.begin() + 1, rounds_.end(),
                       [](auto& texts) { return !texts.empty(); });
  });
  const Lock lock(mutex_);
  std::vector<std::string> texts{std::move(mine)};
  for (size_t rank = 1; rank < rounds_.size(); ++rank) {
    texts.push_back(std::move(rounds_[rank].front()));
    rounds_[rank].pop_front();
  }
  const std::string result = combine(texts);
  for (int rank = 1; rank < size_; ++rank) send(rank, kRound, result);
  return result;
}

void TransportGroup::exchange(std::span<const RankBuffer> buffers, int channel) {
  {
    const Lock lock(mutex_);
    transport_->exchange(buffers, channel);
  }
  wait_until([this] { return transport_->is_exchanged(); });
}

// Looks oftener at first: most answers come within microseconds. Ranks may outnumber processors, so
// the others are let through in between.
void TransportGroup::wait_until(const std::function<bool()>& is_there) {
  const auto start = Clock::now();
  while (true) {
    {
      Lock lock(mutex_);
      pump();
      if (is_there()) return;
      if (failed_ || end_) report(lock, {});
    }
    if (Clock::now() - start < milliseconds(2)) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

void TransportGroup::set_failure_folder(const std::filesystem::path& folder) {
  const Lock lock(mutex_);
  failure_folder_ = folder;
}

void TransportGroup::end() {
  round("end", "", [](const std::vector<std::string>&) { return std::string(); });
  stop_watching();
  // Rank 0's last answers may still be on their way. They carry nothing that a rank waits for, so a
  // network that does not take them is no reason to stay.
  const auto start = Clock::now();
  const Lock lock(mutex_);
  while (!transport_->is_all_sent() && Clock::now() - start < options_.timeout) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  transport_->end();
}

void TransportGroup::fail(int exit_code, const std::string& message) {
  Lock lock(mutex_);
  if (size_ == 1) return write_failure({exit_code, message});
  report(lock, {exit_code, name_of(rank_) + ": " + message});
}

// --- with mutex_ held ---

void TransportGroup::pump() {
  for (auto message = transport_->receive(); message; message = transport_->receive()) {
    handle(*message);
  }
}

void TransportGroup::handle(RankMessage& message) {
  Peer& peer = peers_.at(static_cast<size_t>(message.rank));
  peer.last_heard = Clock::now();
  switch (message.tag) {
    case kRound:
      rounds_.at(rank_ == 0 ? static_cast<size_t>(message.rank) : 0)
          .push_back(std::move(message.bytes));
      return;
    case kAlive:
      if (rank_ != 0) return;
      peer.progress = progress_from_text(message.bytes);
      send(message.rank, kAlive);
      return;
    case kFailed:
    case kEnd: {
      const auto json = nlohmann::json::parse(message.bytes);
      std::optional<Failure>& place = message.tag == kFailed ? failed_ : end_;
      if (!place) place = Failure{json.at(0), json.at(1)};
      return;
    }
    default:
      throw std::domain_error("message " + std::to_string(message.tag) + " of " +
                              name_of(message.rank) + " is none of this program");
  }
}

void TransportGroup::send(int to, int tag, std::string bytes) {
  transport_->send(to, tag, std::move(bytes));
  peers_[static_cast<size_t>(to)].last_told = Clock::now();
}

}  // namespace weft
