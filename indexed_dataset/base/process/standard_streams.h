// Makes the standard streams that a program was given safe to use.
#pragma once

namespace weft {

// Must be called first by every program. A standard stream that the caller closed would lend its
// number to the next file that is opened, and messages would land in a dataset or a checkpoint:
// /dev/null takes its place. A log whose reader has gone must not end hours of work: SIGPIPE is
// ignored, and writes fail with EPIPE instead; SIGXFSZ is ignored likewise, and writes fail with
// EFBIG.
void protect_standard_streams();

}  // namespace weft
