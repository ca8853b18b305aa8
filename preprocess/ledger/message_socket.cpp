#include "preprocess/ledger/message_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

namespace weft {
namespace {

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::string errno_text() { return std::generic_category().message(errno); }

// Waits until `fd` is ready for `events`. Throws ConnectionLost at the deadline.
void wait_until_ready(int fd, short events, Deadline deadline, const std::string& peer) {
  for (;;) {
    const auto rest =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const int64_t rest_ms = std::clamp<int64_t>(rest.count(), 0, 60'000);
    pollfd waiting{fd, events, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(rest_ms));
    if (ready > 0) return;  // also for errors: the next call on the socket says which
    if (ready < 0 && errno != EINTR) throw_errno("cannot wait for " + peer);
    if (rest_ms == 0) throw ConnectionLost(peer + " does not answer in time");
  }
}

std::string numeric_address(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = "";
  if (::getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text;
}

// Addresses of the interfaces that are up. Link-local ones are left out: they mean nothing without
// the name of the caller's interface.
std::vector<std::string> addresses_of_this_machine() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw_errno("cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<std::string> v4, v6;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || !(each->ifa_flags & IFF_UP)) continue;
    if (each->ifa_flags & IFF_LOOPBACK) continue;
    if (each->ifa_addr->sa_family == AF_INET) {
      v4.push_back(numeric_address(each->ifa_addr, sizeof(sockaddr_in)));
    } else if (each->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) continue;
      v6.push_back(numeric_address(each->ifa_addr, sizeof(sockaddr_in6)));
    }
  }
  v4.insert(v4.end(), v6.begin(), v6.end());
  std::erase(v4, "");
  if (v4.empty()) v4.push_back("127.0.0.1");
  return v4;
}

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Nothing (with `error` set to getaddrinfo's) when the name cannot be resolved.
AddressList resolve(const std::string& address, uint16_t port, int flags, int& error) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  error = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &list);
  return AddressList(error == 0 ? list : nullptr, &::freeaddrinfo);
}

SocketFd listen_on(const sockaddr* address, socklen_t length) {
  SocketFd fd(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return fd;
  if (address->sa_family == AF_INET6) {
    const int off = 0;  // one socket for IPv6 and IPv4
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(fd.get(), address, length) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    return SocketFd();
  }
  return fd;
}

SocketFd listen_on_all() {
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  SocketFd fd = listen_on(reinterpret_cast<const sockaddr*>(&any6), sizeof any6);
  if (fd.get() >= 0) return fd;
  sockaddr_in any4{};  // a machine without IPv6
  any4.sin_family = AF_INET;
  return listen_on(reinterpret_cast<const sockaddr*>(&any4), sizeof any4);
}

uint16_t port_of(int fd) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    throw_errno("cannot ask for the port of a socket");
  }
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

}  // namespace

SocketFd::SocketFd(SocketFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

SocketFd& SocketFd::operator=(SocketFd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

SocketFd::~SocketFd() {
  if (fd_ >= 0) ::close(fd_);
}

void prepare_connection(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
      ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    throw_errno("cannot set up a connection");
  }
  // Not fatal where missing: they only make trouble visible earlier.
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 6);
}

MessageListener::MessageListener(const std::string& address) {
  if (address.empty()) {
    fd_ = listen_on_all();
    addresses_ = addresses_of_this_machine();
  } else {
    int error = 0;
    const AddressList found = resolve(address, 0, AI_PASSIVE | AI_NUMERICHOST, error);
    if (!found) {
      throw std::invalid_argument("'" + address +
                                  "' is no address of this machine: " + ::gai_strerror(error));
    }
    fd_ = listen_on(found->ai_addr, found->ai_addrlen);
    addresses_ = {numeric_address(found->ai_addr, found->ai_addrlen)};
  }
  if (fd_.get() < 0) {
    throw_errno("cannot listen on " + (address.empty() ? "any address" : "'" + address + "'"));
  }
  port_ = port_of(fd_.get());
}

SocketFd MessageListener::accept() const {
  SocketFd connection(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (connection.get() >= 0) {
    prepare_connection(connection.get());
  } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    throw_errno("cannot accept a connection");
  }
  return connection;
}

MessageSocket MessageSocket::connect(const std::string& address, uint16_t port, Deadline deadline) {
  const std::string peer = address + " port " + std::to_string(port);
  int resolve_error = 0;
  const AddressList found = resolve(address, port, 0, resolve_error);
  if (!found)
    throw ConnectionLost("cannot resolve " + address + ": " + ::gai_strerror(resolve_error));
  // Of several addresses of one name the first is taken: numeric ones are the rule here.
  MessageSocket connected;
  connected.peer_ = peer;
  connected.fd_ = SocketFd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int fd = connected.fd_.get();
  if (fd < 0) throw ConnectionLost("cannot make a socket for " + peer + ": " + errno_text());
  prepare_connection(fd);
  if (::connect(fd, found->ai_addr, found->ai_addrlen) == 0) return connected;
  if (errno != EINPROGRESS && errno != EINTR) {
    throw ConnectionLost("cannot connect to " + peer + ": " + errno_text());
  }
  wait_until_ready(fd, POLLOUT, deadline, peer);
  socklen_t length = sizeof(int);
  int error = 0;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) {
    throw ConnectionLost("cannot connect to " + peer + ": " +
                         std::generic_category().message(error));
  }
  return connected;
}

void MessageSocket::send(std::string_view message, Deadline deadline) {
  const std::string bytes = framed(message);
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t sent = ::send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      rest.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_until_ready(fd_.get(), POLLOUT, deadline, peer_);
    } else if (errno != EINTR) {
      throw ConnectionLost("the connection to " + peer_ + " broke: " + errno_text());
    }
  }
}

std::string MessageSocket::receive(Deadline deadline) {
  char block[64 << 10];
  for (;;) {
    if (std::optional<std::string> message = reader_.next()) return std::move(*message);
    const ssize_t received = ::recv(fd_.get(), block, sizeof block, 0);
    if (received > 0) {
      reader_.feed({block, static_cast<size_t>(received)});
    } else if (received == 0) {
      throw ConnectionLost(peer_ + " closed the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_until_ready(fd_.get(), POLLIN, deadline, peer_);
    } else if (errno != EINTR) {
      throw ConnectionLost("the connection to " + peer_ + " broke: " + errno_text());
    }
  }
}

}  // namespace weft
