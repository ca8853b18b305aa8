// The identity of a run: its inputs and the options that decide what it makes of them. It is equal
// for runs whose work can be put together, so that a stopped run
// goes on, and a finished one is not done again.
#pragma once

#include <string>

#include "preprocess/inputs/work_plan.h"
#include "preprocess/run/pipeline_config.h"

namespace weft {

// The work of a stopped run only fits inputs that are the very same files, so its journal has
// InputIdentity::status_changed, too: a file that was replaced may keep its size and time. What
// ranks and manifests compare may be copies on several computers.
enum class IdentityFor { kAll, kJournal };

// One line of JSON; `type` is that of the tokens. Options that only decide whether or how fast a
// run comes to its end (workers, bad lines allowed) are not part of it.
std::string run_identity(const PipelineConfig& config, TokenType type, const Inputs& inputs,
                         IdentityFor use = IdentityFor::kAll);

// The name of an input in identities, manifests and source maps, which are UTF-8: invalid bytes are
// shown as \xHH, so that names that differ there only stay different.
std::string utf8_name(const Input& input);

// Everything that the ranks of one run must agree about: its identity, and some options more.
std::string rank_identity(const PipelineConfig& config, const std::string& identity);

// Short name of an identity: 32 hex digits.
std::string run_hash(const std::string& identity);

// Says in words what differs between two runs: "--append-eod: was false, is true", where "was" and
// "is" are the words for the first and the second. `same_inputs` tells whether the inputs are those
// of the same names, and only their contents have changed; `is_lost`, that the first run read what
// cannot be read again (a pipe), so that its work is worth nothing.
struct IdentityDifference {
  std::string text;
  bool same_options = false, same_inputs = false;
  bool is_lost = false;
  bool has_moved = false;  // a branch that the inputs were pinned from is at another commit
};
enum class Compared { kRuns, kRanks };  // kRanks: "rank 0 has" and "that rank has"
IdentityDifference difference(const std::string& first, const std::string& second,
                              Compared compared = Compared::kRuns);

}  // namespace weft
