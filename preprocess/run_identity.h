// What a run makes of what: equal for runs whose work can be put together, so that a stopped run
// goes on, and a finished one is not done again.
#pragma once

#include <string>

#include "preprocess/pipeline.h"
#include "preprocess/work_plan.h"

namespace weft {

// One line of JSON; `type` is that of the tokens. Options that only decide whether or how fast a
// run comes to its end (workers, bad lines allowed) are not part of it.
std::string run_identity(const PipelineConfig& config, TokenType type,
                         const std::vector<InputIdentity>& inputs);

// Short name of an identity: 32 hex digits.
std::string run_hash(const std::string& identity);

// In words, what differs between an earlier run and this one: "--append-eod: was false, is true".
// `inputs_only` tells whether only inputs have changed; `is_lost`, that the earlier run read what
// cannot be read again (a pipe), so that its work is worth nothing.
struct IdentityDifference {
  std::string text;
  bool inputs_only = false;
  bool is_lost = false;
};
IdentityDifference difference(const std::string& earlier, const std::string& now);

}  // namespace weft
