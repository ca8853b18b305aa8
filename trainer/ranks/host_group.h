// All ranks of a run on the control plane: agreement, one small message a step, and who is missing.
// It never touches a device, so it can still tell who is missing when a device hangs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "indexed_dataset/base/ranks/rank_transport.h"
#include "trainer/ranks/flight_recorder.h"

namespace weft {

// All ranks call the same functions in the same order, each from one thread. Where a rank fails, is
// lost or hangs, no call returns: the process ends (transport_group.h).
class HostGroup {
 public:
  virtual ~HostGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "rank 2 (node3, process 4711)"
  virtual std::string name_of(int rank) const = 0;
  virtual const std::string& host_of(int rank) const = 0;

  // Returns on rank 0 what each rank has given, by rank, and nothing on the others.
  virtual std::vector<std::string> gather(std::string_view mine) = 0;
  // Returns what each rank has given, by rank. It is also the barrier. Texts should be small: rank
  // 0 sends all of them to all.
  virtual std::vector<std::string> all_gather(std::string_view mine) = 0;
  // Replaces each value by the greatest that a rank has given.
  virtual void max(std::span<int64_t> values) = 0;

  // Sends and fills all `buffers` (their peers are ranks of the whole run) and waits for them. A
  // channel (0 to 32767) belongs to one communicator.
  virtual void exchange(std::span<const RankBuffer> buffers, int channel) = 0;

  // The operations of this rank that wait for others. Whoever waits for other ranks elsewhere, on a
  // device for example, records that here too.
  virtual FlightRecorder& recorder() = 0;
  // failure.json, and operations.rank_00002.txt of each rank after a hang, go into this folder.
  virtual void set_failure_folder(const std::filesystem::path& folder) = 0;

  // Waits for all ranks and leaves them. Nothing may be called afterwards.
  virtual void end() = 0;
  // Ends the processes of all ranks with `exit_code`, after rank 0 has printed `message` with the
  // name of this rank. A group of one returns.
  virtual void fail(int exit_code, const std::string& message) = 0;
};

// Creates the group of a process that is alone and that nobody watches.
std::unique_ptr<HostGroup> create_lone_host_group();

}  // namespace weft
