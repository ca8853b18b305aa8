// What every program does first with the streams it was given.
#pragma once

namespace weft {

// A standard stream that the caller closed would lend its number to the next file that is opened,
// and messages would land in a dataset or a checkpoint: /dev/null takes its place (nothing to read,
// a sink to write). And a log that nobody reads any more must not end hours of work: SIGPIPE is
// ignored, writes fail with EPIPE instead; so is SIGXFSZ, for EFBIG.
void protect_standard_streams();

}  // namespace weft
