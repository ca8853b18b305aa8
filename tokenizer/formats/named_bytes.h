// A file that a loader reads, held in memory.
#pragma once

#include <string>
#include <string_view>

namespace weft {

struct NamedBytes {
  std::string name;  // in messages
  std::string_view bytes;
};

}  // namespace weft
