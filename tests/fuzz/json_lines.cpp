// A chunk of lines from bytes to tokens: sums fit each other, documents decode to what another JSON
// parser reads, and a line that it accepts is accepted. simdjson's reading of a line is that of the
// definition. Origins are those it finds, and change
// nothing else.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "preprocess/documents/tokenize_chunk.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/preprocess/documents/both_json_readers.h"
#include "tokenizer/formats/load_gpt2.h"

namespace weft {
namespace {

// One entry for each byte, and two merges, so that texts have tokens of several bytes.
std::shared_ptr<const Vocabulary> byte_vocabulary() {
  nlohmann::json entries;
  int next_other = 0x100;
  const auto add = [&](int code_point) {
    std::string entry;
    if (code_point < 0x80) {
      entry = static_cast<char>(code_point);
    } else {
      entry = {static_cast<char>(0xC0 | code_point >> 6),
               static_cast<char>(0x80 | (code_point & 0x3F))};
    }
    entries[entry] = entries.size();
  };
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    add(printable ? byte : next_other++);
  }
  for (const char* entry : {"aa", "te", "<|endoftext|>"}) entries[entry] = entries.size();
  const std::string vocab_json = entries.dump();
  return load_gpt2({"vocab.json", vocab_json}, {"merges.txt", "#version: 0.2\na a\nt e\n"});
}

// How the other parser reads a line: `texts` if it is an object with a string, or a list of
// strings, under "text"; and where that object says it is from.
struct Reading {
  bool is_json = false, has_texts = false;
  std::vector<std::string> texts;
  Origin origin;
};
Origin origin_otherwise(const nlohmann::json& line) {
  for (std::string_view path : kAutoOriginPaths) {
    const nlohmann::json* value = &line;
    while (value != nullptr && !path.empty()) {
      const std::string key(path.substr(0, path.find('.')));
      path.remove_prefix(std::min(key.size() + 1, path.size()));
      value = value->is_object() && value->contains(key) ? &value->at(key) : nullptr;
    }
    if (value == nullptr || !value->is_string()) continue;
    const Origin origin = origin_of(value->get<std::string>());
    FUZZ_CHECK(is_valid(origin));
    if (!origin.is_empty()) return origin;
  }
  return {};
}
Reading read_otherwise(std::string_view line) {
  Reading reading;
  // It skips a byte order mark, ends at a NUL, and has no limit of depth.
  if (line.starts_with("\xEF\xBB\xBF") || line.find('\0') != line.npos) return reading;
  if (std::count(line.begin(), line.end(), '[') + std::count(line.begin(), line.end(), '{') > 900)
    return reading;
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(line);
  } catch (const nlohmann::json::exception&) {
    return reading;  // a number out of range is one as well
  }
  reading.is_json = true;
  if (!json.is_object() || !json.contains("text")) return reading;
  reading.origin = origin_otherwise(json);
  const nlohmann::json& value = json["text"];
  reading.has_texts = value.is_string() || value.is_array();
  if (value.is_string()) reading.texts = {value.get<std::string>()};
  if (!value.is_array()) return reading;
  for (const auto& element : value) {
    reading.has_texts &= element.is_string();
    if (element.is_string()) reading.texts.push_back(element.get<std::string>());
  }
  return reading;
}

LineChunk chunk_of(std::string_view text) {
  LineChunk chunk;
  chunk.buffer.assign(text.begin(), text.end());
  chunk.size_bytes = text.size();
  return chunk;
}

void check_sums(const Batch& result, int64_t num_bytes) {
  const Batch::Output& output = result.outputs[0];
  int64_t num_tokens = 0, num_sequences = 0, num_empty = 0, last_offset = -1;
  for (const int32_t length : output.sequence_lengths) {
    FUZZ_CHECK(length > 0);
    num_tokens += length;
  }
  for (const int32_t count : output.document_sequences) {
    num_sequences += count;
    num_empty += count == 0 ? 1 : 0;
  }
  for (const int64_t offset : output.locators) {
    FUZZ_CHECK(offset > last_offset && offset < num_bytes);
    last_offset = offset;
  }
  FUZZ_CHECK(num_tokens == result.num_tokens);
  FUZZ_CHECK(num_tokens == static_cast<int64_t>(output.tokens_16.size()));
  FUZZ_CHECK(output.tokens_32.empty());
  FUZZ_CHECK(num_sequences == static_cast<int64_t>(output.sequence_lengths.size()));
  FUZZ_CHECK(output.document_sequences.size() == output.locators.size());
  FUZZ_CHECK(num_empty == result.num_empty_documents);
  FUZZ_CHECK(result.num_documents == static_cast<int64_t>(output.locators.size()));
  FUZZ_CHECK(result.num_documents + result.bad_line_counts.total() == result.num_lines);
}

std::vector<std::string> decoded_sequences(const Batch::Output& output,
                                           const Tokenizer& tokenizer) {
  std::vector<std::string> texts;
  auto next = output.tokens_16.begin();
  for (const int32_t length : output.sequence_lengths) {
    const std::vector<int32_t> ids(next, next + length);
    next += length;
    texts.push_back(tokenizer.decode(ids.data(), ids.size()));
  }
  return texts;
}

// A line alone gives what it should, and what it gives is added to `all`.
void check_line(std::string_view line, ChunkTokenizer& chunk_tokenizer, const Tokenizer& tokenizer,
                std::vector<std::string>& all) {
  Batch result;
  LineChunk chunk = chunk_of(line);
  chunk_tokenizer.tokenize(chunk, result);
  if (line.empty()) return;
  FUZZ_CHECK(result.num_lines == 1);
  const std::vector<std::string> texts = decoded_sequences(result.outputs[0], tokenizer);
  all.insert(all.end(), texts.begin(), texts.end());
  Reading reading = read_otherwise(line);
  if (!reading.is_json) return;
  FUZZ_CHECK(result.bad_line_counts.by_problem[static_cast<size_t>(LineProblem::kNotJson)] == 0);
  FUZZ_CHECK((result.num_documents == 1) == reading.has_texts);
  if (!reading.has_texts) return;
  std::erase(reading.texts, "");
  FUZZ_CHECK(texts == reading.texts);
  FUZZ_CHECK(result.outputs[0].origins == std::vector<Origin>{reading.origin});
  FUZZ_CHECK(result.num_replaced_surrogates == 0);
}

}  // namespace
}  // namespace weft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  static const auto vocabulary = byte_vocabulary();
  static const auto rules = [](std::string_view origin_key) {
    TokenizeRules skip;
    skip.on_bad_line = OnBadLine::kSkip;
    skip.origin_key = origin_key;
    return skip;
  };
  static ChunkTokenizer chunk_tokenizer(vocabulary, rules("auto"));
  static ChunkTokenizer without_origins(vocabulary, rules(kNoOriginKey));
  static const Tokenizer tokenizer(vocabulary);

  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Batch result;
  LineChunk chunk = chunk_of(text);
  chunk_tokenizer.tokenize(chunk, result);
  check_sums(result, static_cast<int64_t>(size));
  FUZZ_CHECK(result.outputs[0].origins.size() == result.outputs[0].locators.size());
  Batch plain;
  chunk = chunk_of(text);
  without_origins.tokenize(chunk, plain);
  FUZZ_CHECK(plain.outputs[0].origins.empty());
  FUZZ_CHECK(plain.outputs[0].tokens_16 == result.outputs[0].tokens_16);
  FUZZ_CHECK(plain.outputs[0].locators == result.outputs[0].locators);
  FUZZ_CHECK(plain.bad_line_counts.by_problem == result.bad_line_counts.by_problem);
  FUZZ_CHECK(plain.num_replaced_surrogates == result.num_replaced_surrogates);

  static BothJsonReaders readers({"text"});
  std::vector<std::string> line_by_line;
  LineWalker lines(text);
  int64_t num_lines = 0;
  for (std::string_view line; lines.next(line); ++num_lines) {
    FUZZ_CHECK(line.find_first_of("\r\n") == line.npos);
    FUZZ_CHECK(readers.difference(line).empty());
    check_line(line, chunk_tokenizer, tokenizer, line_by_line);
  }
  FUZZ_CHECK(num_lines == result.num_lines);
  FUZZ_CHECK(line_by_line == decoded_sequences(result.outputs[0], tokenizer));
  return 0;
}
