// Parses a large JSON file in bounded memory: its long lists are handed on element by element, and
// all the rest becomes a small tree.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/formats/named_bytes.h"

namespace weft {

// Receives what lies inside of one list or object, and may throw to refuse it.
class JsonSink {
 public:
  virtual ~JsonSink() = default;
  virtual void on_key(std::string_view key) = 0;
  virtual void on_string(std::string_view text) = 0;
  virtual void on_integer(int64_t value) = 0;
  virtual void on_other() = 0;             // another kind of value
  virtual void on_open(bool is_list) = 0;  // a list or object inside of it
  virtual void on_close() = 0;
};

struct JsonList {
  std::string path;  // from the root: "model.vocab"
  bool is_list;      // it is a list; else an object. The other of both becomes part of the tree
  JsonSink* sink;
};

// Returns the tree without the content of `lists`. Throws std::runtime_error, which names the file,
// if it is not JSON, is nested more than 64 deep, has a key twice, or more than 2^20 values outside
// of the lists.
nlohmann::json parse_json_stream(const NamedBytes& file, const std::vector<JsonList>& lists);

// Returns the first key of the object, or of the list of objects, that a file begins with, or "".
std::string first_json_key(std::string_view bytes);

}  // namespace weft
