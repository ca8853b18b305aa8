#include "preprocess/tokenize_chunk.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace weft {
namespace {

// After a chunk of more than this (one long line), a thread gives its buffers back: all threads
// would hold those of the longest line in time.
constexpr size_t kLargeChunkBytes = 8 << 20;

constexpr std::string_view kSpecialTokenText = "<|endoftext|>";

int64_t count_code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

// Python reads a "\r\n" as one "\n".
int64_t count_pairs_of_line_ends(std::string_view text) {
  int64_t count = 0;
  for (size_t at = text.find("\r\n"); at != std::string_view::npos; at = text.find("\r\n", at + 2))
    ++count;
  return count;
}

template <typename T>
void append_as(const std::vector<int32_t>& ids, std::vector<std::byte>& tokens) {
  const size_t before = tokens.size();
  tokens.resize(before + ids.size() * sizeof(T));
  std::byte* out = tokens.data() + before;
  for (const int32_t id : ids) {
    const T narrow = static_cast<T>(id);
    std::memcpy(out, &narrow, sizeof(T));
    out += sizeof(T);
  }
}

}  // namespace

void TokenizedChunk::clear(size_t num_keys) {
  outputs.resize(num_keys);
  for (Output& output : outputs) {
    output.tokens.clear();
    output.lengths.clear();
  }
  num_lines = num_documents = num_empty_documents = num_tokens = num_replaced_surrogates =
      num_code_points = 0;
  bad_line_counts = {};
  bad_lines.clear();
}

ChunkTokenizer::ChunkTokenizer(std::shared_ptr<const Vocabulary> vocabulary,
                               const TokenizeRules& rules)
    : rules_(rules),
      type_(token_type_for_vocabulary(vocabulary->size())),
      end_of_document_(rules.append_eod ? vocabulary->end_of_document() : -1),
      tokenizer_(vocabulary, rules.special_tokens),
      parser_(rules.json_keys),
      ids_(rules.json_keys.size()) {}

void ChunkTokenizer::tokenize(const LineChunk& chunk, TokenizedChunk& result) {
  result.clear(rules_.json_keys.size());
  const auto note_bad_line = [&](LineOutcome outcome, int64_t offset_bytes) {
    result.bad_line_counts.add(outcome.problem);
    if (std::ssize(result.bad_lines) >= kNumShownBadLines) return;
    result.bad_lines.push_back({"", result.num_lines, offset_bytes, std::move(outcome)});
  };
  const std::string too_long =
      "more than " + std::to_string(rules_.max_line_bytes) + " bytes (--max-line-bytes)";
  if (chunk.is_too_long_line) {
    result.num_lines = 1;
    note_bad_line({LineProblem::kTooLong, too_long, 0}, chunk.offset_bytes);
    return;
  }

  const std::string_view text = chunk.text();
  result.num_code_points = count_code_points(text) - count_pairs_of_line_ends(text);
  const bool all_utf8 = simdjson::validate_utf8(text);
  LineWalker lines(text);
  std::string_view line;
  while (lines.next(line)) {
    ++result.num_lines;
    LineOutcome outcome;
    if (line.size() > rules_.max_line_bytes) {
      outcome = {LineProblem::kTooLong, too_long, 0};
    } else if (!all_utf8 && !simdjson::validate_utf8(line)) {
      outcome = {LineProblem::kInvalidUtf8, "", 0};
    } else {
      outcome = tokenize_line(line, result);
    }
    if (outcome.problem == LineProblem::kNone) continue;
    note_bad_line(std::move(outcome), chunk.offset_bytes + (line.data() - text.data()));
    if (rules_.on_bad_line == OnBadLine::kStop) return;
  }
  if (text.size() <= kLargeChunkBytes) return;
  parser_ = JsonLineParser(rules_.json_keys);
  ids_ = std::vector<std::vector<int32_t>>(rules_.json_keys.size());
}

LineOutcome ChunkTokenizer::tokenize_line(std::string_view line, TokenizedChunk& result) {
  LineOutcome outcome = parser_.parse(line);
  if (outcome.problem != LineProblem::kNone) return outcome;
  // All keys first: a line is a document under every key or under none.
  for (size_t k = 0; k < ids_.size(); ++k) {
    const std::string_view text = parser_.text(k);
    // Looked for here as well, so that any other error of the tokenizer stays an error of the
    // program.
    if (rules_.special_tokens == SpecialTokens::kError &&
        text.find(kSpecialTokenText) != text.npos) {
      return {LineProblem::kSpecialToken,
              std::string(kSpecialTokenText) + " in \"" + rules_.json_keys[k] + "\"", 0};
    }
    ids_[k].clear();
    tokenizer_.encode(text, ids_[k]);
  }
  for (size_t k = 0; k < ids_.size(); ++k) append_document(ids_[k], result.outputs[k], result);
  result.num_replaced_surrogates += parser_.num_replaced_surrogates();
  ++result.num_documents;
  return outcome;
}

// Megatron-LM tools/preprocess_data.py: a text without tokens gets no end-of-document token.
void ChunkTokenizer::append_document(std::vector<int32_t>& ids, TokenizedChunk::Output& output,
                                     TokenizedChunk& result) {
  if (ids.empty()) {
    ++result.num_empty_documents;
    if (rules_.empty_documents == EmptyDocuments::kSkip) return;
  } else if (rules_.append_eod) {
    ids.push_back(end_of_document_);
  }
  output.lengths.push_back(static_cast<int32_t>(ids.size()));
  result.num_tokens += std::ssize(ids);
  if (type_ == TokenType::kUInt16) {
    append_as<uint16_t>(ids, output.tokens);
  } else {
    append_as<int32_t>(ids, output.tokens);
  }
}

}  // namespace weft
