// All ranks of a run must have been started alike.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/ranks/host_group.h"

namespace weft {

// (name, value), such as ("--seed", "1234"). Names differ from each other.
using Facts = std::vector<std::pair<std::string, std::string>>;

// Compares the facts of all ranks. Throws ConfigurationDiffers on every rank alike, with each fact
// in which a rank differs from rank 0; the first eight ranks that differ are named.
void check_ranks_agree(HostGroup& ranks, const Facts& facts);

// Returns the XXH3 of a text, in hexadecimal digits: for facts that are long.
std::string checksum_of(std::string_view text);

// Returns the XXH3 of this program's file, in hexadecimal digits; "unknown" where its user may not
// read it, or there is no /proc. Throws std::system_error if reading fails.
std::string program_checksum();

// Returns how many ranks before this one run on its host.
int local_rank(const HostGroup& ranks);

}  // namespace weft
