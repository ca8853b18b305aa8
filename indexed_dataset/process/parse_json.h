// Parses JSON documents that other programs may have written, with the library's type that the
// caller chooses.
#pragma once

#include <array>
#include <stdexcept>
#include <string_view>

namespace weft {

// Ours nest four deep. The library copies, compares and writes values by recursion, and copies
// while it parses where the order of members is kept: a hundred thousand brackets end the stack.
constexpr int kMaxDocumentDepth = 64;

// Objects that keep the order of their members compare each with all before it. Ours have a few dozen.
constexpr int kMaxOrderedMembers = 10'000;

struct NestedTooDeeply : std::runtime_error {
  NestedTooDeeply() : std::runtime_error("its values are nested too deeply") {}
};

struct TooManyMembers : std::runtime_error {
  TooManyMembers() : std::runtime_error("an object of it has too many members") {}
};

// Throws NestedTooDeeply, TooManyMembers (of a Json that keeps their order), and what Json::parse
// throws.
template <typename Json>
Json parse_json(std::string_view text) {
  constexpr bool kKeepsOrder = requires { typename Json::object_t::Container; };
  std::array<int, kMaxDocumentDepth + 2> num_members{};  // of the object that is open at each depth
  return Json::parse(text, [&](int depth, typename Json::parse_event_t event, const Json&) {
    if (depth > kMaxDocumentDepth) throw NestedTooDeeply();
    auto& count = num_members[static_cast<size_t>(depth)];
    if (event == Json::parse_event_t::key && ++count > kMaxOrderedMembers && kKeepsOrder) {
      throw TooManyMembers();
    }
    if (event == Json::parse_event_t::object_start) num_members[static_cast<size_t>(depth) + 1] = 0;
    return true;
  });
}

}  // namespace weft
