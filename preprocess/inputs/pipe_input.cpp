#include "preprocess/inputs/pipe_input.h"

#include <unistd.h>

#include <cerrno>

namespace weft {

int PipeInput::opening_error() const {
  return !is_standard_input() && ::access(path_.c_str(), R_OK) != 0 ? errno : 0;
}

std::unique_ptr<ByteSource> PipeInput::open(int64_t, int64_t, const std::atomic<bool>& cancelled,
                                            const DecodeOptions& options) const {
  auto raw = is_standard_input() ? open_standard_input(cancelled) : open_file(path_, cancelled);
  return decode(std::move(raw), name(), options);
}

}  // namespace weft
