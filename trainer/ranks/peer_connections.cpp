#include "trainer/ranks/peer_connections.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <sstream>
#include <utility>

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// An address that does not answer for so long is given up for the next one.
constexpr milliseconds kLongestTry{500};
// A key of 16 digits, and a rank behind a blank.
constexpr size_t kMostBytes = 32;

milliseconds left_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  return std::max(left, milliseconds(0));
}

bool wait_for(int socket, short events, milliseconds longest) {
  pollfd polled{socket, events, 0};
  return ::poll(&polled, 1, static_cast<int>(longest.count())) > 0;
}

void send_line(int socket, const std::string& line) {
  // A line is far smaller than a socket's buffer; whoever does not get it does not answer.
  [[maybe_unused]] const ssize_t sent =
      ::send(socket, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Returns the line without its end, or "" where none comes in time.
std::string receive_line(int socket, milliseconds longest) {
  const auto deadline = Clock::now() + longest;
  std::string line;
  while (line.size() < kMostBytes && wait_for(socket, POLLIN, left_until(deadline))) {
    char byte = 0;
    if (::recv(socket, &byte, 1, MSG_DONTWAIT) != 1) return "";
    if (byte == '\n') return line;
    line += byte;
  }
  return "";
}

std::string new_key() {
  std::random_device random;
  std::string key;
  for (int i = 0; i < 16; ++i) key += "0123456789abcdef"[random() % 16];
  return key;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return addresses;
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    const bool is_usable = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
    if (!is_usable || at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr, text,
                sizeof text);
    addresses.emplace_back(text);
  }
  ::freeifaddrs(all);
  return addresses;
}

// Returns a connected socket, or -1.
int connect_to(const std::string& address, uint16_t port, milliseconds longest) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  if (::inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1) return -1;
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return -1;
  ::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  int error = 0;
  socklen_t size = sizeof error;
  const bool is_there = wait_for(socket, POLLOUT, longest) &&
                        ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 &&
                        error == 0;
  if (is_there) return socket;
  ::close(socket);
  return -1;
}

}  // namespace

PeerConnections::~PeerConnections() {
  for (const auto& [rank, socket] : sockets_) ::close(socket);
  if (listener_ >= 0) ::close(listener_);
}

std::string PeerConnections::offer() {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  auto* const address = reinterpret_cast<sockaddr*>(&any);
  socklen_t size = sizeof any;
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener_ < 0 || ::bind(listener_, address, size) != 0 ||
      ::listen(listener_, SOMAXCONN) != 0 || ::getsockname(listener_, address, &size) != 0) {
    return "";
  }
  key_ = new_key();
  std::string text = key_ + " " + std::to_string(ntohs(any.sin_port));
  for (const std::string& own : own_addresses()) text += " " + own;
  return text;
}

void PeerConnections::accept(const std::set<int>& ranks, milliseconds longest) {
  const auto deadline = Clock::now() + longest;
  std::map<int, int> accepted;
  while (listener_ >= 0 && accepted.size() < ranks.size() &&
         wait_for(listener_, POLLIN, left_until(deadline))) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket < 0) break;
    send_line(socket, key_ + "\n");
    std::istringstream answer(receive_line(socket, std::min(kLongestTry, left_until(deadline))));
    std::string key;
    int rank = -1;
    answer >> key >> rank;
    const bool is_peer = key == key_ && ranks.contains(rank);
    if (!is_peer || !accepted.emplace(rank, socket).second) ::close(socket);
  }
  if (listener_ >= 0) ::close(listener_);
  listener_ = -1;
  const std::lock_guard lock(mutex_);
  sockets_ = std::move(accepted);
}

void PeerConnections::connect(const std::string& offer, int rank, milliseconds longest) {
  const auto deadline = Clock::now() + longest;
  const auto patience = [&] { return std::min(kLongestTry, left_until(deadline)); };
  std::istringstream words(offer);
  std::string key, address;
  uint16_t port = 0;
  words >> key >> port;
  while (words >> address && left_until(deadline).count() > 0) {
    const int socket = connect_to(address, port, patience());
    if (socket < 0) continue;
    // The address may be one of this machine, too, or of another one that is not asked.
    if (receive_line(socket, left_until(deadline)) != key) {
      ::close(socket);
      continue;
    }
    send_line(socket, key + " " + std::to_string(rank) + "\n");
    const std::lock_guard lock(mutex_);
    sockets_[0] = socket;
    return;
  }
}

std::vector<int> PeerConnections::closed() {
  const std::lock_guard lock(mutex_);
  std::vector<pollfd> polled;
  std::vector<int> ranks;
  for (const auto& [rank, socket] : sockets_) {
    polled.push_back({socket, POLLIN, 0});
    ranks.push_back(rank);
  }
  std::vector<int> closed;
  if (::poll(polled.data(), polled.size(), 0) <= 0) return closed;
  for (size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents == 0) continue;
    closed.push_back(ranks[i]);
    ::close(polled[i].fd);
    sockets_.erase(ranks[i]);
  }
  return closed;
}

}  // namespace weft
