// Flags of Megatron-LM and Megatron-DeepSpeed that weft-train knows by name only. Harmless ones are
// accepted and reported as having no effect, the others are refused with a hint; none is silently
// ignored.
#pragma once

#include <span>
#include <string_view>

namespace weft {

struct KnownFlag {
  std::string_view flag;         // with its dashes
  int num_values;                // -1 means one or more
  std::string_view reason;       // the reason why it has no effect, or what to do instead
  std::string_view values = {};  // "a|b": only these values have no effect; empty: all have none
};

std::span<const KnownFlag> flags_without_effect();
std::span<const KnownFlag> flags_not_supported();

// Returns the subject that a flag of Megatron belongs to, as "mixtures of experts are", where Weft
// lacks all of it; "" for another flag.
std::string_view missing_subject_of(std::string_view flag);

// Returns Megatron's flag for one that other trainers have, as "--lr" for "--learning-rate", or "".
std::string_view megatron_name_of(std::string_view flag);

}  // namespace weft
