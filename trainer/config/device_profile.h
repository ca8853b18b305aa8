// A device profile tells the memory plan about a kind of GPU, so that a login node without one can
// plan. Each kind has a text file in device_profiles/, which is built into the program.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

struct DeviceProfile {
  std::string name;                   // "NVIDIA H200"
  int64_t memory_bytes = 0;           // all of the device's
  int64_t context_bytes = 0;          // those that the CUDA context and libraries take of it
  int64_t num_multiprocessors = 132;  // Grids follow it, and with them the scratch of operations.
  int64_t host_memory_bytes =
      0;                // the share of its host's memory that each device may take; 0: not known
  bool has_fp8 = true;  // products of fp8, from compute capability 8.9 on

  int64_t free_bytes() const { return memory_bytes - context_bytes; }
};

// Returns the profile of that name ("h200"), or the one in a file of that path. A file has lines
// "KEY VALUE" and comments that begin with '#'; host_memory_mib may be missing, hosts of one kind
// of GPU differ, and so may multiprocessors, which are then as many as an H100 has.
// Throws UsageError, which lists the known names, if there is none, or if the file lacks
// a key or has an unknown one.
DeviceProfile find_device_profile(const std::string& name_or_path);

}  // namespace weft
