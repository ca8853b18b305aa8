// simdjson beside the definition: bytes inside a string, which is a text, a key, an element of a
// list, or an origin.
#include <string>

#include "preprocess/stream/line_chunks.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/preprocess/documents/both_json_readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static weft::BothJsonReaders readers({"text"});
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  for (const std::string& line :
       {R"({"text":")" + bytes + "\"}", R"({"text":")" + bytes,
        R"({"text":"a","url":")" + bytes + "\"}", R"({"text":["a",")" + bytes + "\"]}",
        R"({")" + bytes + R"(":1,"text":"a"})"}) {
    FUZZ_CHECK(readers.difference(line).empty());
  }
  return 0;
}
