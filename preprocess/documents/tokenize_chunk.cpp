#include "preprocess/documents/tokenize_chunk.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "preprocess/documents/bad_line_hint.h"

namespace weft {
namespace {

// A text in pieces leaves far less than this waiting with vocabularies that are made as GPT-2's.
constexpr size_t kMaxKeptWaitingBytes = 4 << 20;

// For larger chunks the memory is reserved beforehand: vectors that grow take twice their size while
// they are copied.
constexpr size_t kLargeChunkBytes = 2 << 20;

constexpr std::string_view kSpecialTokenText = "<|endoftext|>";

}  // namespace

TokenType token_type(const TokenizeRules& rules, int64_t vocabulary_size) {
  if (!rules.token_type) return token_type_for_vocabulary(vocabulary_size);
  if (*rules.token_type == TokenType::kUInt16 && vocabulary_size > 65536) {
    throw std::invalid_argument("--dtype uint16: ids of a vocabulary of " +
                                std::to_string(vocabulary_size) +
                                " entries do not fit 16 bits; give auto or int32");
  }
  return *rules.token_type;
}

ChunkTokenizer::ChunkTokenizer(std::shared_ptr<const Vocabulary> vocabulary,
                               const TokenizeRules& rules, size_t text_piece_bytes)
    : rules_(rules),
      text_piece_bytes_(text_piece_bytes),
      type_(token_type(rules, vocabulary->size())),
      end_of_document_(rules.append_eod ? vocabulary->end_of_document() : -1),
      tokenizer_(vocabulary, rules.special_tokens),
      parser_(rules.json_keys, rules.origin_key, text_piece_bytes),
      marks_(rules.json_keys.size()) {}

void ChunkTokenizer::tokenize(const LineChunk& chunk, Batch& result) {
  result.clear(rules_.json_keys.size());
  const std::string_view text = chunk.text();
  const auto note_bad_line = [&](LineOutcome outcome, int64_t offset_bytes,
                                 std::string_view line = {}) {
    result.bad_line_counts.add(outcome.problem);
    if (std::ssize(result.bad_lines) >= kNumShownBadLines) return;
    result.bad_lines.push_back({"", result.num_lines, offset_bytes, std::move(outcome)});
    if (line.empty()) return;
    explain_bad_line(result.bad_lines.back(),
                     text.substr(static_cast<size_t>(line.data() - text.data())), line,
                     rules_.json_keys);
  };
  const std::string too_long =
      "more than " + std::to_string(rules_.max_line_bytes) + " bytes (--max-line-bytes)";
  if (chunk.is_too_long_line) {
    result.num_lines = 1;
    note_bad_line({LineProblem::kTooLong, too_long, 0}, chunk.offset_bytes);
    return;
  }

  if (text.size() > kLargeChunkBytes) reserve_for(text.size(), result);
  LineWalker lines(text);
  for (std::string_view line; lines.next(line);) {
    ++result.num_lines;
    LineOutcome outcome = line.size() > rules_.max_line_bytes
                              ? LineOutcome{LineProblem::kTooLong, too_long, 0}
                              : tokenize_line(line, chunk, result);
    if (outcome.problem == LineProblem::kNone) continue;
    note_bad_line(std::move(outcome), chunk.offset_bytes + (line.data() - text.data()), line);
    if (rules_.on_bad_line == OnBadLine::kStop) return;
  }
}

// A token stands for at least one byte, a string of a list with its quotes and comma for at least
// four if it has a token. The memory is taken as it is filled.
void ChunkTokenizer::reserve_for(size_t text_bytes, Batch& result) const {
  for (Batch::Output& output : result.outputs) {
    if (type_ == TokenType::kUInt16) output.tokens_16.reserve(text_bytes);
    if (type_ == TokenType::kInt32) output.tokens_32.reserve(text_bytes);
    output.sequence_lengths.reserve(text_bytes / 4);
  }
}

LineOutcome ChunkTokenizer::tokenize_line(std::string_view line, const LineChunk& chunk,
                                          Batch& result) {
  const std::string_view text = chunk.text();
  const auto position = static_cast<size_t>(line.data() - text.data());
  LineOutcome outcome = parser_.parse(line, text.size() - position - line.size());
  if (outcome.problem != LineProblem::kNone) return outcome;
  const int64_t offset_bytes = chunk.offset_bytes + static_cast<int64_t>(position);
  return type_ == TokenType::kUInt16 ? append_line<uint16_t>(offset_bytes, result)
                                     : append_line<int32_t>(offset_bytes, result);
}

// A line is a document under every key or under none: a line that turns out to be bad leaves nothing
// behind.
template <typename Id>
LineOutcome ChunkTokenizer::append_line(int64_t offset_bytes, Batch& result) {
  const Origin origin = rules_.keeps_origins() ? parser_.origin() : Origin{};
  for (size_t k = 0; k < marks_.size(); ++k) {
    Batch::Output& output = result.outputs[k];
    marks_[k] = {output.num_tokens(), output.num_sequences()};
    if (append_texts<Id>(k, output)) continue;
    for (size_t i = 0; i <= k; ++i) {
      result.outputs[i].cut(marks_[i].num_tokens, marks_[i].num_sequences);
    }
    return {LineProblem::kSpecialToken,
            std::string(kSpecialTokenText) + " in \"" + rules_.json_keys[k] + "\"", 0};
  }
  for (size_t k = 0; k < marks_.size(); ++k) {
    end_document<Id>(marks_[k], offset_bytes, origin, result.outputs[k], result);
  }
  result.num_replaced_surrogates += parser_.num_replaced_surrogates();
  ++result.num_documents;
  return {};
}

// Tokenizes every text of one key on its own; one without tokens leaves no sequence. False if the
// special token is in a text and must not be.
template <typename Id>
bool ChunkTokenizer::append_texts(size_t key_idx, Batch::Output& output) {
  int64_t begin = output.num_tokens();  // of this text's tokens
  return parser_.each_text(key_idx, [&](const TextPiece& piece) {
    if (!append_piece<Id>(piece, output.tokens<Id>())) return false;
    if (piece.is_last && output.num_tokens() > begin) {
      output.sequence_lengths.push_back(static_cast<int32_t>(output.num_tokens() - begin));
      begin = output.num_tokens();
    }
    return true;
  });
}

// The special token is looked for here as well, so that any other error of the tokenizer stays an
// error of the program.
template <typename Id>
bool ChunkTokenizer::append_piece(const TextPiece& piece, std::vector<Id>& tokens) {
  const bool refuses_special = rules_.special_tokens == SpecialTokens::kError;
  if (piece.is_first && piece.is_last) {
    if (refuses_special && piece.text.find(kSpecialTokenText) != piece.text.npos) return false;
    tokenizer_.encode(piece.text, tokens);
    return true;
  }
  if (piece.is_first) {
    begun_ = {};
    waiting_.clear();
  }
  waiting_ += piece.text;
  // A token that goes on in the next piece waits as a whole.
  if (refuses_special && waiting_.find(kSpecialTokenText) != waiting_.npos) return false;
  waiting_.erase(0, tokenizer_.encode_part(waiting_, piece.is_last, begun_, tokens));
  if (piece.is_last && waiting_.capacity() > kMaxKeptWaitingBytes) waiting_ = {};
  return true;
}

// Megatron-LM tools/preprocess_data.py: the end-of-document token is one more of the last sequence;
// a document without tokens gets none.
template <typename Id>
void ChunkTokenizer::end_document(const Mark& before, int64_t offset_bytes, const Origin& origin,
                                  Batch::Output& output, Batch& result) const {
  if (output.num_tokens() == before.num_tokens) {
    ++result.num_empty_documents;
    if (rules_.empty_documents == EmptyDocuments::kSkip) return;
  } else if (rules_.append_eod) {
    output.tokens<Id>().push_back(static_cast<Id>(end_of_document_));
    ++output.sequence_lengths.back();
  }
  output.document_sequences.push_back(
      static_cast<int32_t>(output.num_sequences() - before.num_sequences));
  output.line_offsets.push_back(offset_bytes);
  if (rules_.keeps_origins()) output.origins.push_back(origin);
  result.num_tokens += output.num_tokens() - before.num_tokens;
}

}  // namespace weft
