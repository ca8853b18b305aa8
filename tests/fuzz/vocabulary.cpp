// Vocabulary files of any content, refused or a vocabulary whose ids decode to the text that was
// encoded: vocab.json, a NUL and merges.txt, or without a NUL any other format.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/fuzz_check.h"
#include "tokenizer/formats/load_gpt2.h"
#include "tokenizer/formats/load_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace {

std::shared_ptr<const weft::Vocabulary> load(std::string_view bytes) {
  const size_t split = bytes.find('\0');
  if (split == std::string_view::npos)
    return weft::load_tokenizer({"tokenizer.json", bytes}, {.tiktoken_pattern = "r50k"});
  return weft::load_gpt2({"vocab.json", bytes.substr(0, split)},
                         {"merges.txt", bytes.substr(split + 1)});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::shared_ptr<const weft::Vocabulary> vocabulary;
  try {
    vocabulary = load(bytes);
  } catch (const std::runtime_error&) {
    return 0;
  }
  // These change the text.
  const bool is_exact =
      vocabulary->missing_bytes().none() && vocabulary->normalizer() == weft::Normalizer::kNone &&
      std::all_of(vocabulary->added_tokens().begin(), vocabulary->added_tokens().end(),
                  [](const weft::AddedToken& token) { return token.special; });
  weft::Tokenizer tokenizer(vocabulary);
  for (const std::string text : {std::string("the the ab\n\n  abab caf\u00e9 it's 123!"),
                                 std::string(100, 'a') + "b", std::string(bytes)}) {
    std::vector<int32_t> ids;
    tokenizer.encode(text, ids);
    const std::string decoded = tokenizer.decode(ids.data(), ids.size());
    if (is_exact) FUZZ_CHECK(decoded == text);
  }
  return 0;
}
