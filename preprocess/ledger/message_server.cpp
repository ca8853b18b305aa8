#include "preprocess/ledger/message_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace weft {
namespace {

constexpr size_t kMaxHelloBytes = 64 << 10;
constexpr int kMaxStrangers = 64;
constexpr std::chrono::seconds kHelloTime{10};
// A peer that takes nothing in while so much waits for it is as good as gone.
constexpr size_t kMaxUnsentBytes = 2 * kMaxMessageBytes;
// Of one connection before the others have their turn.
constexpr size_t kBytesPerTurn = 256 << 10;

// Without descriptors the listener would be ready again at once, and the thread would spin.
constexpr std::chrono::milliseconds kAcceptPause{100};

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

struct MessageServer::Connection {
  SocketFd fd;
  std::chrono::steady_clock::time_point since;
  MessageReader reader{kMaxHelloBytes};
  std::string unsent;
  bool is_known = false;    // its hello was right
  bool is_closing = false;  // close_peer() was called
};

MessageServer::MessageServer(const std::string& address, const RunSecret& secret, Events events,
                             Clock clock)
    : listener_(address),
      secret_(secret),
      events_(std::move(events)),
      clock_(std::move(clock)),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_fd_.get() < 0) {
    throw std::system_error(errno, std::generic_category(), "cannot make an event descriptor");
  }
}

MessageServer::~MessageServer() = default;

void MessageServer::wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full: then a wake-up is waiting already.
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_.get(), &one, sizeof one);
}

void MessageServer::poll_once(std::chrono::milliseconds wait) {
  // poll() passes over negative descriptors.
  std::vector<pollfd> waiting{{accept_fails_ ? -1 : listener_.fd(), POLLIN, 0},
                              {wake_fd_.get(), POLLIN, 0}};
  if (std::exchange(accept_fails_, false)) wait = std::min(wait, kAcceptPause);
  std::vector<PeerId> ids;
  for (const auto& [id, connection] : connections_) {
    const int events =
        (connection.is_closing ? 0 : POLLIN) | (connection.unsent.empty() ? 0 : POLLOUT);
    waiting.push_back({connection.fd.get(), static_cast<short>(events), 0});
    ids.push_back(id);
  }
  const int ready = ::poll(waiting.data(), waiting.size(), static_cast<int>(wait.count()));
  if (ready < 0 && errno != EINTR) {
    throw std::system_error(errno, std::generic_category(), "cannot wait for ranks");
  }
  if (ready > 0) {
    uint64_t wake_ups = 0;
    if (waiting[1].revents != 0) {
      [[maybe_unused]] const ssize_t read = ::read(wake_fd_.get(), &wake_ups, sizeof wake_ups);
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      const short happened = waiting[i + 2].revents;
      if (happened & POLLOUT) write_to(ids[i]);
      if (happened & (POLLIN | POLLERR | POLLHUP)) read_from(ids[i]);
    }
    if (waiting[0].revents != 0) accept_all();
  }
  drop_late_strangers();
}

void MessageServer::accept_all() {
  for (;;) {
    SocketFd fd;
    try {
      fd = listener_.accept();
    } catch (const std::system_error&) {
      // Out of descriptors. A stranger makes room; else the newcomer waits in the kernel's queue.
      if (drop_oldest_stranger()) continue;
      accept_fails_ = true;
      return;
    }
    if (fd.get() < 0) return;
    int num_strangers = 0;
    for (const auto& [id, connection] : connections_) num_strangers += !connection.is_known;
    if (num_strangers >= kMaxStrangers) drop_oldest_stranger();
    Connection& connection = connections_[next_id_++];
    connection.fd = std::move(fd);
    connection.since = clock_();
  }
}

void MessageServer::read_from(PeerId id) {
  char block[32 << 10];
  size_t received_bytes = 0;
  while (received_bytes < kBytesPerTurn) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;  // an event handler or a full queue ended it
    Connection& connection = found->second;
    const ssize_t received = ::recv(connection.fd.get(), block, sizeof block, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0 && would_block()) return;
    if (received <= 0) return drop(id, true);
    received_bytes += static_cast<size_t>(received);
    if (connection.is_closing) continue;
    connection.reader.feed({block, static_cast<size_t>(received)});
    try {
      for (;;) {
        const auto still = connections_.find(id);
        if (still == connections_.end() || still->second.is_closing) break;
        std::optional<std::string> message = still->second.reader.next();
        if (!message) break;
        handle(id, std::move(*message));
      }
    } catch (const ConnectionLost&) {
      return drop(id, true);
    }
  }
}

void MessageServer::handle(PeerId id, std::string message) {
  Connection& connection = connections_.at(id);
  if (connection.is_known) return events_.on_message(id, std::move(message));
  std::optional<std::string> payload = open_hello(secret_, message);
  if (!payload) return drop(id, false);
  connection.is_known = true;
  connection.reader.set_max_message_bytes(kMaxMessageBytes);
  events_.on_hello(id, std::move(*payload));
}

void MessageServer::send(PeerId peer, std::string_view message) {
  const auto found = connections_.find(peer);
  if (found == connections_.end() || found->second.is_closing) return;
  Connection& connection = found->second;
  connection.unsent += framed(message);
  if (connection.unsent.size() > kMaxUnsentBytes) {
    // Ended by the next poll, which reports it: callers of send() may be in the middle of things.
    ::shutdown(connection.fd.get(), SHUT_RDWR);
    connection.unsent.clear();
    return;
  }
  write_to(peer);
}

void MessageServer::write_to(PeerId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  size_t begin = 0;
  while (begin < connection.unsent.size()) {
    const ssize_t sent = ::send(connection.fd.get(), connection.unsent.data() + begin,
                                connection.unsent.size() - begin, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && !would_block()) {
      // The reading side of the next poll sees the broken connection and reports it.
      begin = connection.unsent.size();
      break;
    }
    if (sent < 0) break;
    begin += static_cast<size_t>(sent);
  }
  connection.unsent.erase(0, begin);
  if (connection.is_closing && connection.unsent.empty()) drop(id, false);
}

void MessageServer::close_peer(PeerId peer) {
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return;
  found->second.is_closing = true;
  found->second.since = clock_();
  if (found->second.unsent.empty()) drop(peer, false);
}

void MessageServer::drop(PeerId id, bool report) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const bool was_peer = found->second.is_known && !found->second.is_closing;
  connections_.erase(found);
  if (report && was_peer) events_.on_gone(id);
}

void MessageServer::drop_late_strangers() {
  const auto now = clock_();
  for (auto each = connections_.begin(); each != connections_.end();) {
    const Connection& connection = each->second;
    const bool may_stay = connection.is_known && !connection.is_closing;
    if (may_stay || now - connection.since < kHelloTime) {
      ++each;
    } else {
      each = connections_.erase(each);
    }
  }
}

bool MessageServer::drop_oldest_stranger() {
  for (auto each = connections_.begin(); each != connections_.end(); ++each) {
    if (each->second.is_known) continue;
    connections_.erase(each);
    return true;
  }
  return false;
}

}  // namespace weft
