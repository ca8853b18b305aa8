// Encodes records for peers_test.py and families_peers_test.py: reads from stdin records of u32
// size and that many bytes (little-endian), writes for each u32 count and that many u32 ids.
//
// usage: encode_records VOCAB.json MERGES.txt literal|token < records > ids
//        encode_records TOKENIZER literal|token < records > ids
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "preprocess/vocabulary/find_tokenizer.h"
#include "preprocess/vocabulary/load_vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace {

bool read_exactly(void* out, size_t num_bytes) {
  return std::fread(out, 1, num_bytes, stdin) == num_bytes;
}

void write_u32(uint32_t value) { std::fwrite(&value, sizeof(value), 1, stdout); }

int encode_all(weft::Tokenizer& tokenizer) {
  std::string text;
  std::vector<int32_t> ids;
  uint32_t num_bytes;
  while (read_exactly(&num_bytes, sizeof(num_bytes))) {
    text.resize(num_bytes);
    if (!read_exactly(text.data(), num_bytes)) {
      std::fprintf(stderr, "error: stdin ends inside a record of %u bytes\n", num_bytes);
      return 3;
    }
    ids.clear();
    tokenizer.encode(text, ids);
    write_u32(static_cast<uint32_t>(ids.size()));
    std::fwrite(ids.data(), sizeof(int32_t), ids.size(), stdout);
  }
  return std::fflush(stdout) == 0 && !std::ferror(stdout) ? 0 : 4;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string special_tokens = argc == 3 || argc == 4 ? argv[argc - 1] : "";
  if (special_tokens != "literal" && special_tokens != "token") {
    std::fprintf(
        stderr,
        "usage: encode_records (VOCAB.json MERGES.txt | TOKENIZER) literal|token < records "
        "> ids\n");
    return 2;
  }
  try {
    const weft::TokenizerFiles files =
        argc == 4 ? weft::gpt2_files(argv[1], argv[2]) : weft::find_tokenizer(argv[1]);
    weft::Tokenizer tokenizer(weft::load_vocabulary(files), special_tokens == "token"
                                                                ? weft::SpecialTokens::kToken
                                                                : weft::SpecialTokens::kLiteral);
    return encode_all(tokenizer);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
