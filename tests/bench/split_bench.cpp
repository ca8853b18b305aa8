// Speed of every pattern alone, on one thread: text in memory to pieces.
//
//   weft_split_bench FILE...
//
// FILE.jsonl: one document per line, key "text". Each number is the best of five passes, in 10^6
// bytes of UTF-8 text per second of CPU time; nfc is to_nfc over the same documents.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/bench/thread_seconds.h"
#include "tests/tokenizer/split_kinds.h"
#include "tokenizer/split/split_patterns.h"
#include "tokenizer/unicode/nfc.h"

namespace {

constexpr int kPasses = 5;

std::vector<std::string> documents_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot open");
  std::vector<std::string> documents;
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);  // lone surrogates: left out
    if (!json.is_discarded()) documents.push_back(json["text"]);
  }
  return documents;
}

size_t count_pieces_of(const weft::SplitPattern& pattern,
                       const std::vector<std::string>& documents) {
  size_t ends[weft::kSplitBatch], count = 0;
  for (const std::string& text : documents) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t num_pieces = pattern.split(text, begin, ends, std::size(ends));
      count += num_pieces;
      begin = ends[num_pieces - 1];
    }
  }
  return count;
}

template <typename Work>
double megabytes_per_second(const std::vector<std::string>& documents, Work work) {
  size_t num_bytes = 0;
  for (const std::string& text : documents) num_bytes += text.size();
  double best = 1e30;
  for (int pass = 0; pass < kPasses; ++pass) best = std::min(best, weft::bench::seconds(work));
  return static_cast<double>(num_bytes) / 1e6 / best;
}

void measure_file(const std::string& path) {
  const std::vector<std::string> documents = documents_of(path);
  std::printf("%s\n%-16s %10s", path.c_str(), "pattern", "pieces");
  const std::pair<const char*, weft::Simd> kinds_of_simd[] = {{"scalar", weft::Simd::kScalar},
                                                              {"avx2", weft::Simd::kAvx2},
                                                              {"avx512", weft::Simd::kAvx512},
                                                              {"neon", weft::Simd::kNeon}};
  for (const auto& [name, simd] : kinds_of_simd) {
    if (weft::has_simd(simd)) std::printf(" %8s", name);
  }
  for (const weft::SplitKind kind : weft::test::kSplitKinds) {
    const auto scalar =
        weft::make_split_pattern(kind, weft::UnicodeVersion::k16, weft::Simd::kScalar);
    std::printf("\n%-16s %10zu", weft::test::name_of(kind).c_str(),
                count_pieces_of(*scalar, documents));
    for (const auto& [name, simd] : kinds_of_simd) {
      if (!weft::has_simd(simd)) continue;
      const auto pattern = weft::make_split_pattern(kind, weft::UnicodeVersion::k16, simd);
      std::printf(" %8.0f",
                  megabytes_per_second(documents, [&] { count_pieces_of(*pattern, documents); }));
    }
  }
  std::string scratch;
  size_t num_normalized = 0;
  const double nfc = megabytes_per_second(documents, [&] {
    for (const std::string& text : documents)
      num_normalized += weft::to_nfc(text, scratch).data() == text.data();
  });
  std::printf("\nnfc %.0f MB/s\n", nfc);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: weft_split_bench FILE.jsonl...\n");
    return 2;
  }
  try {
    for (int i = 1; i < argc; ++i) measure_file(argv[i]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
