// Parses JSON documents that other programs may have written, with the library's type that the
// caller chooses.
#pragma once

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weft {

// Ours nest four deep. The library copies, compares and writes values by recursion, and copies
// while it parses where the order of members is kept: a hundred thousand brackets end the stack.
constexpr int kMaxDocumentDepth = 64;

// Objects that keep the order of their members compare each with all before it. Ours have a few
// dozen.
constexpr int kMaxOrderedMembers = 10'000;

struct NestedTooDeeply : std::runtime_error {
  NestedTooDeeply() : std::runtime_error("its values are nested too deeply") {}
};

struct TooManyMembers : std::runtime_error {
  TooManyMembers() : std::runtime_error("an object of it has too many members") {}
};

// Looks at a document as it is parsed and keeps nothing of it.
// (A callback of Json::parse could do the same, but then the library searches all earlier members
// of an object after each of them: 40,000 tensors of a safetensors header take 20 seconds.)
template <typename Json>
class DocumentLimits : public Json::json_sax_t {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(typename Json::number_integer_t) override { return true; }
  bool number_unsigned(typename Json::number_unsigned_t) override { return true; }
  bool number_float(typename Json::number_float_t, const typename Json::string_t&) override {
    return true;
  }
  bool string(typename Json::string_t&) override { return true; }
  bool binary(typename Json::binary_t&) override { return true; }
  bool start_object(size_t) override { return open(); }
  bool key(typename Json::string_t&) override {
    constexpr bool kKeepsOrder = requires { typename Json::object_t::Container; };
    if (++num_members_[static_cast<size_t>(depth_)] > kMaxOrderedMembers && kKeepsOrder)
      throw TooManyMembers();
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(); }
  bool end_array() override { return close(); }
  // Json::parse meets the error again and describes it.
  bool parse_error(size_t, const std::string&, const typename Json::exception&) override {
    return false;
  }

 protected:
  int depth() const { return depth_; }  // number of open objects and arrays

 private:
  bool open() {
    if (++depth_ > kMaxDocumentDepth) throw NestedTooDeeply();
    num_members_[static_cast<size_t>(depth_)] = 0;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }
  int depth_ = 0;
  std::array<int, kMaxDocumentDepth + 1>
      num_members_{};  // of the object that is open at each depth
};

// Throws NestedTooDeeply, TooManyMembers (of a Json that keeps their order), and what Json::parse
// throws.
template <typename Json>
Json parse_json(std::string_view text) {
  DocumentLimits<Json> limits;
  Json::sax_parse(text, &limits);
  return Json::parse(text);
}

}  // namespace weft
