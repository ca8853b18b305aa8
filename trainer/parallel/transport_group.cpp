#include "trainer/parallel/transport_group.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/storage/file_io.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

enum Tag : int { kRound = 1, kAlive, kFailed, kEnd };

// How often the thread looks at processes, messages and clocks. The main thread looks by itself
// while it waits.
constexpr milliseconds kWatchInterval{50};
// A rank tells that it is alive at least so often; a thread does it, whatever else the rank does.
constexpr milliseconds kAliveInterval{1'000};
// A process whose thread is silent for so long is stopped or lost, however long collectives may
// take.
constexpr milliseconds kLongestSilence{60'000};
// A process that did not run for so long was suspended, or its machine was.
constexpr milliseconds kLongestRound{1'000};
// The end of a process is seen at once. The reason, if it had one to tell, arrives within this
// time, which must be shorter than the second that mpirun leaves to the other processes.
constexpr milliseconds kGrace{300};
// A rank that has reported to another one ends the run by itself if it still lives after this time.
constexpr milliseconds kPatience{5'000};

int code(ExitCode exit_code) { return static_cast<int>(exit_code); }

std::string seconds(milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1e3);
}

milliseconds since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start);
}

// Two processes with equal texts share a kernel and the numbers of its processes.
std::string machine_of_this_process() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  char name[64] = "";
  const ssize_t size = ::readlink("/proc/self/ns/pid", name, sizeof name - 1);
  return boot + " " + std::string(name, size > 0 ? static_cast<size_t>(size) : 0);
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr size_t kMaxNamed = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxNamed); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMaxNamed) text += fmt::format(" and {} more", names.size() - kMaxNamed);
  return text;
}

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
  thread_ = std::thread([this] { watch(); });
  gather_places();
}

TransportGroup::~TransportGroup() {
  if (thread_.joinable()) fail(code(ExitCode::kInternalError), "it has ended without a word");
  for (const Peer& peer : peers_) {
    if (peer.process_handle >= 0) ::close(peer.process_handle);
  }
}

void TransportGroup::gather_places() {
  char host[256] = "?";
  ::gethostname(host, sizeof host - 1);
  const nlohmann::json mine = {host, machine_of_this_process(), ::getpid()};
  const std::vector<std::string> all = all_gather(mine.dump());
  const Lock lock(mutex_);
  for (const std::string& text : all) {
    const auto json = nlohmann::json::parse(text);
    places_.push_back({json.at(0), json.at(1), json.at(2)});
  }
  open_process_handles();
}

// A handle of a process (pidfd_open(2), Linux 5.3) becomes readable when it ends. Without it a
// process that ends is noticed by its silence.
void TransportGroup::open_process_handles() {
#ifdef SYS_pidfd_open
  const Place& own = places_[static_cast<size_t>(rank_)];
  for (size_t rank = 0; rank < places_.size(); ++rank) {
    const Place& place = places_[rank];
    if (place.machine != own.machine || place.process == own.process) continue;
    peers_[rank].process_handle =
        static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(place.process), 0U));
  }
#endif
}

std::string TransportGroup::name_of(int rank) const {
  return "rank " + std::to_string(rank) + " (" + transport_->place_of(rank) + ")";
}

const std::string& TransportGroup::host_of(int rank) const {
  return places_.at(static_cast<size_t>(rank)).host;
}

// --- the calls of all ranks ---

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
  {
    const Lock lock(mutex_);
    is_ending_ = true;
  }
  thread_.join();
  // Rank 0's last answers may still be on their way.
  while (true) {
    const Lock lock(mutex_);
    if (transport_->is_all_sent()) break;
  }
  transport_->end();
}

void TransportGroup::fail(int exit_code, const std::string& message) {
  Lock lock(mutex_);
  report(lock, {exit_code, name_of(rank_) + ": " + message});
}

// --- the thread ---

void TransportGroup::watch() {
  while (true) {
    wait_for_ends_of_processes();
    Lock lock(mutex_);
    if (is_ending_) return;
    try {
      const auto now = Clock::now();
      forgive_own_pause(now);
      pump();
      say_alive(now);
      if (failed_ || end_) report(lock, {});
      check_processes(lock, now);
      check_silence(lock, now);
      check_waiting(lock);
    } catch (const std::exception& error) {
      report(lock, {code(ExitCode::kPeerLost), name_of(rank_) + ": " + error.what()});
    }
  }
}

void TransportGroup::wait_for_ends_of_processes() {
  std::vector<pollfd> handles;
  std::vector<size_t> ranks;
  {
    const Lock lock(mutex_);
    for (size_t rank = 0; rank < peers_.size(); ++rank) {
      if (peers_[rank].process_handle < 0 || peers_[rank].is_gone) continue;
      handles.push_back({peers_[rank].process_handle, POLLIN, 0});
      ranks.push_back(rank);
    }
  }
  const int num_ready =
      ::poll(handles.data(), handles.size(), static_cast<int>(kWatchInterval.count()));
  if (num_ready <= 0) return;
  const Lock lock(mutex_);
  for (size_t i = 0; i < handles.size(); ++i) {
    if (handles[i].revents != 0) peers_[ranks[i]].is_gone = true;
  }
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
      note_progress(peer, message.bytes);
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

void TransportGroup::say_alive(Clock::time_point now) {
  if (rank_ == 0) return;  // it answers
  const auto interval = std::min(options_.timeout / 8, kAliveInterval);
  if (now - peers_[0].last_told >= interval) send(0, kAlive, progress());
}

std::string TransportGroup::progress() const {
  const FlightRecorder::Operation latest = recorder_.latest();
  const bool waits = latest.number > 0 && !latest.has_ended;
  return fmt::format("{} {} {} {}", latest.number, latest.iteration,
                     waits ? since(latest.begun).count() : -1, latest.name);
}

void TransportGroup::note_progress(Peer& peer, const std::string& text) {
  std::istringstream words(text);
  words >> peer.number >> peer.iteration >> peer.waited_ms >> std::ws;
  peer.operation.clear();
  std::getline(words, peer.operation);
}

void TransportGroup::forgive_own_pause(Clock::time_point now) {
  const auto pause = now - std::exchange(last_watched_, now);
  if (pause < kLongestRound) return;
  for (Peer& peer : peers_) peer.last_heard += pause;
  recorder_.forgive(pause);
}

void TransportGroup::check_processes(Lock& lock, Clock::time_point now) {
  const auto gone =
      std::find_if(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.is_gone; });
  if (gone == peers_.end()) return;
  if (!gone_at_) gone_at_ = now;
  if (now - *gone_at_ < kGrace) return;
  report(lock, {code(ExitCode::kPeerLost),
                name_of(static_cast<int>(gone - peers_.begin())) +
                    ": its process has ended without a word; it was killed (see the kernel's log "
                    "for the out-of-memory killer) or has crashed"});
}

void TransportGroup::check_silence(Lock& lock, Clock::time_point now) {
  const auto limit = std::min(options_.timeout, kLongestSilence);
  for (int rank = 0; rank < (rank_ == 0 ? size_ : 1); ++rank) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    if (rank == rank_ || now - peer.last_heard <= limit) continue;
    peer.is_gone = true;
    report(lock, {code(ExitCode::kHang), name_of(rank) + " was silent for " + seconds(limit) +
                                             ": its process is stopped, or its machine or the "
                                             "network to it is lost"});
  }
}

void TransportGroup::check_waiting(Lock& lock) {
  if (rank_ != 0) return;
  note_progress(peers_[0], progress());
  int waiting = -1;
  for (int rank = 0; rank < size_; ++rank) {
    const auto waited_ms = peers_[static_cast<size_t>(rank)].waited_ms;
    if (waited_ms >= options_.timeout.count()) waiting = rank;
  }
  if (waiting < 0) return;
  report(lock, {code(ExitCode::kHang), hang_message(peers_, waiting)});
}

// Missing are the ranks that wait for nothing or began to wait late; if all wait, those that have
// begun the fewest operations.
std::string TransportGroup::hang_message(const std::vector<Peer>& peers, int waiting_rank) const {
  const Peer& waiting = peers[static_cast<size_t>(waiting_rank)];
  int64_t fewest = waiting.number;
  bool all_wait = true;
  for (const Peer& peer : peers) {
    if (peer.waited_ms < options_.timeout.count() / 2) all_wait = false;
    fewest = std::min(fewest, peer.number);
  }
  std::vector<std::string> missing, waiting_names;
  for (int rank = 0; rank < size_; ++rank) {
    const Peer& peer = peers[static_cast<size_t>(rank)];
    const bool is_missing = all_wait ? peer.number == fewest && fewest < waiting.number
                                     : peer.waited_ms < options_.timeout.count() / 2;
    if (is_missing) {
      missing.push_back(fmt::format("{}, which {} operation {} ({}) of iteration {}", name_of(rank),
                                    peer.waited_ms < 0 ? "goes on after" : "waits in", peer.number,
                                    peer.operation, peer.iteration));
    } else {
      waiting_names.push_back(std::to_string(rank));
    }
  }
  const std::string where = fmt::format("operation {} ({}) of iteration {}", waiting.number,
                                        waiting.operation, waiting.iteration);
  const std::string limit =
      "--distributed-timeout-minutes " +
      fmt::format("{:g}", static_cast<double>(options_.timeout.count()) / 6e4);
  if (missing.empty()) {
    return fmt::format("all ranks wait in {} for longer than {}: the network carries nothing",
                       where, limit);
  }
  return fmt::format("{} did not arrive at {} within {}; ranks {} wait there", list_of(missing),
                     where, limit, list_of(waiting_names));
}

// --- the end of all ---

// Rank 0 reports while it lives; else the first rank that this one does not know to be gone.
bool TransportGroup::is_reporter() const {
  for (int rank = 0; rank < rank_; ++rank) {
    if (!peers_[static_cast<size_t>(rank)].is_gone) return false;
  }
  return true;
}

void TransportGroup::report(Lock& lock, const Failure& failure) {
  // The first to tell a failure has named its cause; later ones follow from it.
  const Failure first = end_ ? *end_ : failed_ ? *failed_ : failure;
  if (!end_ && is_reporter()) conclude(lock, first);
  if (!end_ && !peers_[0].is_gone) {
    send(0, kFailed,
         nlohmann::json{first.exit_code, first.message}.dump(
             -1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  const auto start = Clock::now();
  bool has_written = false;
  while (since(start) < kPatience) {
    pump();
    if (end_ && !std::exchange(has_written, true) && end_->exit_code == code(ExitCode::kHang)) {
      write_operations();
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  if (end_) end_process(lock, end_->exit_code);
  conclude(lock, first);
}

void TransportGroup::conclude(Lock& lock, const Failure& failure) {
  options_.print_error(failure.message);
  write_failure(failure);
  const bool hangs = failure.exit_code == code(ExitCode::kHang);
  if (hangs) write_operations();
  const std::string text = nlohmann::json{failure.exit_code, failure.message}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) transport_->send(rank, kEnd, text);
  }
  const auto start = Clock::now();
  const milliseconds patience(hangs ? 500 : 200);  // after a hang the others write operations
  while (since(start) < patience) {
    if (transport_->is_all_sent() && !hangs) break;
    std::this_thread::sleep_for(milliseconds(1));
  }
  end_process(lock, failure.exit_code);
}

void TransportGroup::end_process(Lock& /*lock*/, int exit_code) {
  transport_->abort(exit_code);
  std::terminate();  // it does not return
}

void TransportGroup::write_failure(const Failure& failure) const {
  if (failure_folder_.empty()) return;
  nlohmann::ordered_json json = {{"exit_code", failure.exit_code}, {"reason", failure.message}};
  for (int rank = 0; rank < size_; ++rank) {
    Peer peer = peers_[static_cast<size_t>(rank)];
    if (rank == rank_) {
      const FlightRecorder::Operation latest = recorder_.latest();
      peer.number = latest.number, peer.iteration = latest.iteration, peer.operation = latest.name;
    }
    json["ranks"].push_back({{"rank", rank},
                             {"place", transport_->place_of(rank)},
                             {"is_gone", peer.is_gone},
                             {"iteration", peer.iteration},
                             {"operation", peer.number},
                             {"name", peer.operation}});
  }
  try {
    write_file_atomically(
        failure_folder_ / "failure.json",
        json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } catch (const std::exception&) {
    // The reason is printed already; a full disk may be the reason.
  }
}

void TransportGroup::write_operations() const {
  if (failure_folder_.empty()) return;
  try {
    write_file_atomically(failure_folder_ / fmt::format("operations.rank_{:05d}.txt", rank_),
                          recorder_.to_text());
  } catch (const std::exception&) {
  }
}

}  // namespace weft
