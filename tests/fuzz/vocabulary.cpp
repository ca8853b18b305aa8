// Vocabulary files of any content (vocab.json, a NUL, merges.txt): refused, or a vocabulary whose
// ids decode to the text that was encoded.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_check.h"
#include "tokenizer/formats/load_gpt2.h"
#include "tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t split = std::min(bytes.find('\0'), bytes.size());
  const std::string_view merges = bytes.substr(std::min(split + 1, bytes.size()));
  std::shared_ptr<const weft::Vocabulary> vocabulary;
  try {
    vocabulary = weft::load_gpt2({"vocab.json", bytes.substr(0, split)}, {"merges.txt", merges});
  } catch (const std::runtime_error&) {
    return 0;
  }
  FUZZ_CHECK(vocabulary->size() >= 256);
  weft::Tokenizer tokenizer(vocabulary);
  for (const std::string text : {std::string("the the ab\n\n  abab caf\u00e9 it's 123!"),
                                 std::string(100, 'a') + "b", std::string(merges)}) {
    std::vector<int32_t> ids;
    tokenizer.encode(text, ids);
    FUZZ_CHECK(tokenizer.decode(ids.data(), ids.size()) == text);
  }
  return 0;
}
