// Carries bytes between the ranks of a run: Open MPI in mpi_transport.cpp, nothing in no_mpi.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weft {

struct RankMessage {
  int rank = 0;  // the sender
  int tag = 0;
  std::string bytes;
};

// Memory of this rank that goes to a peer, or that a peer fills.
struct RankBuffer {
  int peer = 0;
  bool sends = false;
  void* data = nullptr;
  int64_t num_bytes = 0;
};

// One thread at a time, and no call waits, but for end().
class RankTransport {
 public:
  virtual ~RankTransport() = default;

  virtual int rank() const = 0;
  virtual int num_ranks() const = 0;
  // "node3, process 4711"
  virtual const std::string& place_of(int rank) const = 0;

  virtual void send(int to, int tag, std::string bytes) = 0;
  virtual bool is_all_sent() = 0;
  // The next message that has arrived whole. Messages of one rank may overtake each other.
  virtual std::optional<RankMessage> receive() = 0;

  // Starts to send and to fill all `buffers` together, apart from the messages. Their memory must
  // stay until is_exchanged() returns true, and only then the next exchange may start. Between two
  // ranks the buffers of a channel (0 to 32767) arrive in the order in which they were sent; both
  // sides must name the same sizes.
  virtual void exchange(std::span<const RankBuffer> buffers, int channel) = 0;
  virtual bool is_exchanged() = 0;

  // Waits until all ranks have called it. Nothing may be called afterwards.
  virtual void end() = 0;
  // Ends the processes of all ranks, this one too; the launcher returns `exit_code`.
  virtual void abort(int exit_code) = 0;
};

// How long the ranks may take to start MPI, which waits for each of them for ever.
struct StartLimit {
  std::chrono::milliseconds timeout;
  std::string option;  // that sets it: "--peer-timeout"
  std::function<void(const std::string& message)> print_error;
};

// Starts MPI in this process; its launcher must have started others with it. Throws
// RunFailed (kPeerLost) if MPI fails, UsageError where this program was built without it;
// `way_without_mpi` is what a user can do then. Where another rank is frozen meanwhile, the process
// ends with kPeerLost when the time is over; its launcher ends the others.
std::unique_ptr<RankTransport> make_mpi_transport(std::string_view way_without_mpi,
                                                  const StartLimit& limit);

}  // namespace weft
