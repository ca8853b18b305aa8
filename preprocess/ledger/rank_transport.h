// Carries bytes between the ranks of a run: Open MPI in mpi_transport.cpp, nothing in no_mpi.cpp.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace weft {

struct RankMessage {
  int rank = 0;  // the sender
  int tag = 0;
  std::string bytes;
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

  // Waits until all ranks have called it. Nothing may be called afterwards.
  virtual void end() = 0;
  // Ends the processes of all ranks, this one too; the launcher returns `exit_code`.
  virtual void abort(int exit_code) = 0;
};

// Starts MPI in this process; its launcher must have started others with it. Throws
// std::runtime_error if MPI fails, std::invalid_argument where this program was built without it.
std::unique_ptr<RankTransport> make_mpi_transport();

}  // namespace weft
