// JSON documents that somebody else may have written, parsed by whatever library includes this.
#pragma once

#include <stdexcept>
#include <string_view>

namespace weft {

// Ours nest four deep. The library copies, compares and writes values by recursion, and copies
// while it parses where the order of members is kept: a hundred thousand brackets end the stack.
constexpr int kMaxDocumentDepth = 64;

struct NestedTooDeeply : std::runtime_error {
  NestedTooDeeply() : std::runtime_error("its values are nested too deeply") {}
};

// Throws NestedTooDeeply, and what Json::parse throws.
template <typename Json>
Json parse_json(std::string_view text) {
  return Json::parse(text, [](int depth, typename Json::parse_event_t, const Json&) {
    if (depth > kMaxDocumentDepth) throw NestedTooDeeply();
    return true;
  });
}

}  // namespace weft
