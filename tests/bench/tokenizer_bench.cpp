// Speed of the tokenizer on one thread, text in memory to ids in memory. Reading, JSON and output
// are not included.
//
//   weft_tokenizer_bench VOCAB.json MERGES.txt FILE...
//   weft_tokenizer_bench --tokenizer TOKENIZER[:PATTERN] FILE...
//
// TOKENIZER is a tokenizer.json, a tekken.json, or a rank file, whose pattern must be named.
// FILE.jsonl: one document per line, key "text"; any other file is one document. For each file:
//   split  the pieces alone
//   cold   a new tokenizer is made and passes for the first time: words are merged and cached
//   warm   best of the following passes with the same tokenizer
// MB/s are 10^6 bytes of UTF-8 text per second of CPU time.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/bench/thread_seconds.h"
#include "tests/tokenizer/load_files.h"
#include "tokenizer/formats/load_tokenizer.h"
#include "tokenizer/split/split_pattern.h"
#include "tokenizer/tokenizer.h"

namespace {

using weft::bench::seconds;

constexpr int kWarmPasses = 5;
constexpr double kMaxWarmSeconds = 5;  // of all passes over a text

std::vector<std::string> read_documents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot open");
  std::vector<std::string> documents;
  if (!path.ends_with(".jsonl")) {
    documents.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    return documents;
  }
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);  // lone surrogates: left out
    if (!json.is_discarded()) documents.push_back(json["text"]);
  }
  return documents;
}

size_t count_pieces(const weft::SplitPattern& pattern, const std::string& text) {
  size_t ends[weft::kSplitBatch], count = 0;
  for (size_t begin = 0; begin < text.size(); begin = ends[0]) {
    const size_t num_pieces = pattern.split(text, begin, ends, std::size(ends));
    count += num_pieces;
    ends[0] = ends[num_pieces - 1];
  }
  return count;
}

// `Id`: uint16_t where the vocabulary's ids fit.
template <typename Id>
void measure(const std::shared_ptr<const weft::Vocabulary>& vocabulary, const std::string& path) {
  const std::vector<std::string> documents = read_documents(path);
  size_t num_bytes = 0, num_tokens = 0, num_pieces = 0;
  for (const std::string& text : documents) num_bytes += text.size();

  std::optional<weft::Tokenizer> tokenizer;
  std::vector<Id> ids;
  const auto encode_all = [&] {
    num_tokens = 0;
    for (const std::string& text : documents) {
      ids.clear();
      tokenizer->encode(text, ids);
      num_tokens += ids.size();
    }
  };
  const auto split_all = [&] {
    num_pieces = 0;
    for (const std::string& text : documents)
      num_pieces += count_pieces(vocabulary->pattern(), text);
  };
  const double cold = seconds([&] {
    tokenizer.emplace(vocabulary);
    encode_all();
  });
  double warm = cold, split = 1e30;
  for (int pass = 0; pass < kWarmPasses && (pass == 0 || pass * warm < kMaxWarmSeconds); ++pass) {
    warm = std::min(warm, seconds(encode_all));
    split = std::min(split, seconds(split_all));
  }
  const double megabytes = static_cast<double>(num_bytes) / 1e6;
  std::printf("%-40s %8.1f MB %9zu pieces %9zu tokens | split %6.1f cold %6.1f warm %6.1f MB/s\n",
              path.substr(path.rfind('/') + 1).c_str(), megabytes, num_pieces, num_tokens,
              megabytes / split, megabytes / cold, megabytes / warm);
}

std::shared_ptr<const weft::Vocabulary> load(const std::string& tokenizer) {
  const size_t size = std::min(tokenizer.find(':'), tokenizer.size());
  const std::string path = tokenizer.substr(0, size);
  weft::LoadOptions options;
  if (size < tokenizer.size()) options.tiktoken_pattern = tokenizer.substr(size + 1);
  return weft::load_tokenizer({path, weft::test::read_bytes(path)}, options);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr,
                 "usage: weft_tokenizer_bench VOCAB.json MERGES.txt FILE...\n"
                 "       weft_tokenizer_bench --tokenizer TOKENIZER[:PATTERN] FILE...\n");
    return 2;
  }
  try {
    std::shared_ptr<const weft::Vocabulary> vocabulary;
    const double load_seconds = seconds([&] {
      vocabulary = argv[1] == std::string("--tokenizer")
                       ? load(argv[2])
                       : weft::test::load_gpt2_files(argv[1], argv[2]);
    });
    std::printf("vocabulary of %d ids loaded and checked in %.0f ms\n", vocabulary->size(),
                load_seconds * 1e3);
    const double first = seconds([&] { weft::Tokenizer make_tables(vocabulary); });
    const double second = seconds([&] { weft::Tokenizer tokenizer(vocabulary); });
    std::printf("first tokenizer made in %.1f ms, another in %.1f ms\n", first * 1e3, second * 1e3);
    for (int i = 3; i < argc; ++i) {
      (vocabulary->size() <= 1 << 16 ? measure<uint16_t> : measure<int32_t>)(vocabulary, argv[i]);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
