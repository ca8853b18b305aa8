// Times JSON, UTF-8 and bookkeeping beside the encoder, on one thread in memory.
//
//   weft_chunk_bench VOCAB.json MERGES.txt FILE.jsonl...
//
// Columns, MB/s of UTF-8 text (key "text") in 10^6 bytes per second of CPU time, best of the warm
// passes, which take turns:
//   encoder  the texts, already unescaped, to 16-bit ids
//   chunk    JSON lines in chunks of 1 MiB to the bytes of the dataset (ChunkTokenizer)
//   lines    JSON lines to texts, UTF-8 check included (JsonLineParser)
//   ratio    chunk / encoder
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "preprocess/documents/tokenize_chunk.h"
#include "tests/bench/thread_seconds.h"
#include "tests/tokenizer/load_files.h"

namespace {

using weft::bench::seconds;

constexpr int kPasses = 9;
constexpr size_t kChunkBytes = 1 << 20;  // PipelineConfig::chunk_bytes

std::vector<weft::LineChunk> read_chunks(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot open");
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::vector<weft::LineChunk> chunks;
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t newline = bytes.find('\n', std::min(begin + kChunkBytes, bytes.size()) - 1);
    const size_t end = newline == std::string::npos ? bytes.size() : newline + 1;
    weft::LineChunk& chunk = chunks.emplace_back();
    chunk.buffer.assign(bytes.begin() + static_cast<ptrdiff_t>(begin),
                        bytes.begin() + static_cast<ptrdiff_t>(end));
    chunk.size_bytes = end - begin;
    chunk.offset_bytes = static_cast<int64_t>(begin);
    begin = end;
  }
  return chunks;
}

template <typename Use>
void for_each_text(const std::vector<weft::LineChunk>& chunks, Use use) {
  weft::JsonLineParser parser({"text"});
  for (const weft::LineChunk& chunk : chunks) {
    weft::LineWalker lines(chunk.text());
    for (std::string_view line; lines.next(line);) {
      const char* const end = line.data() + line.size();
      const auto num_behind = static_cast<size_t>(chunk.text().data() + chunk.text().size() - end);
      if (parser.parse(line, num_behind).problem != weft::LineProblem::kNone) continue;
      parser.each_text(0, [&](std::string_view text) {
        use(text);
        return true;
      });
    }
  }
}

void measure(const std::shared_ptr<const weft::Vocabulary>& vocabulary, const std::string& path) {
  // Texts of several pieces count as several, and tokenizing such a line would empty its chunk.
  std::vector<weft::LineChunk> chunks = read_chunks(path);
  std::vector<std::string> texts;
  size_t num_bytes = 0;
  for_each_text(chunks, [&](std::string_view text) {
    texts.emplace_back(text);
    num_bytes += text.size();
  });

  weft::Tokenizer tokenizer(vocabulary);
  std::vector<uint16_t> ids;
  weft::TokenizeRules rules;
  rules.on_bad_line = weft::OnBadLine::kSkip;
  weft::ChunkTokenizer chunk_tokenizer(vocabulary, rules);
  weft::Batch result;
  double encoder = 1e9, chunk = 1e9, lines = 1e9;
  size_t num_ids = 0, num_tokens = 0, num_line_bytes = 0;
  for (int pass = 0; pass < kPasses; ++pass) {  // the first is the caches' and cannot be the best
    num_ids = num_tokens = num_line_bytes = 0;
    encoder = std::min(encoder, seconds([&] {
                         for (const std::string& text : texts) {
                           if (ids.size() > kChunkBytes / 4) ids.clear();
                           const size_t before = ids.size();
                           tokenizer.encode(text, ids);
                           num_ids += ids.size() - before;
                         }
                       }));
    chunk = std::min(chunk, seconds([&] {
                       for (weft::LineChunk& lines_of : chunks) {
                         chunk_tokenizer.tokenize(lines_of, result);
                         num_tokens += static_cast<size_t>(result.num_tokens);
                       }
                     }));
    lines = std::min(lines, seconds([&] {
                       for_each_text(chunks,
                                     [&](std::string_view text) { num_line_bytes += text.size(); });
                     }));
  }
  if (num_ids != num_tokens || num_line_bytes != num_bytes) {
    throw std::runtime_error(path + ": " + std::to_string(num_ids) + " ids by the encoder, " +
                             std::to_string(num_tokens) + " by chunks");
  }
  const double megabytes = static_cast<double>(num_bytes) / 1e6;
  std::printf("%-30s %7.1f MB  encoder %6.0f  chunk %6.0f  lines %6.0f MB/s  ratio %.3f\n",
              path.substr(path.rfind('/') + 1).c_str(), megabytes, megabytes / encoder,
              megabytes / chunk, megabytes / lines, encoder / chunk);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 4) throw std::runtime_error("usage: weft_chunk_bench VOCAB.json MERGES.txt FILE...");
    const auto vocabulary = weft::test::load_gpt2_files(argv[1], argv[2]);
    for (int i = 3; i < argc; ++i) measure(vocabulary, argv[i]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
