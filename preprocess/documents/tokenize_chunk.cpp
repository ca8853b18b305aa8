#include "preprocess/documents/tokenize_chunk.h"

#include <algorithm>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/documents/text_reader.h"

namespace weft {

TokenType token_type(const TokenizeRules& rules, int64_t vocabulary_size) {
  if (!rules.token_type) return token_type_for_vocabulary(vocabulary_size);
  if (*rules.token_type == TokenType::kUInt16 && vocabulary_size > 65536) {
    throw UsageError("--dtype uint16: ids of a vocabulary of " + std::to_string(vocabulary_size) +
                     " entries do not fit 16 bits; give auto or int32");
  }
  return *rules.token_type;
}

void check_can_be_read(const Input& input, const TokenizeRules& rules) {
  if (input.layout().has_rows && rules.split_texts_at)
    throw UsageError(input.name() + ": this is a table: leave --input-format text out");
}

std::unique_ptr<ChunkReader> make_chunk_reader(const TokenizeRules& rules) {
  if (rules.split_texts_at)
    return std::make_unique<TextReader>(*rules.split_texts_at, rules.max_line_bytes);
  return std::make_unique<LineReader>(rules.json_keys, rules.origin_key, rules.max_line_bytes,
                                      rules.where);
}

ChunkTokenizer::ChunkTokenizer(std::shared_ptr<const Vocabulary> vocabulary,
                               const TokenizeRules& rules)
    : rules_(rules),
      type_(token_type(rules, vocabulary->size())),
      end_of_document_(!rules.append_eod       ? -1
                       : rules.end_of_document ? *rules.end_of_document
                                               : vocabulary->end_of_document()),
      tokenizer_(vocabulary, rules.special_tokens),
      lines_(make_chunk_reader(rules)),
      rows_(rules.json_keys, rules.max_line_bytes, rules.where),
      marks_(rules.json_keys.size()) {}

void ChunkTokenizer::tokenize(const LineChunk& chunk, Batch& result) {
  lines_->open(chunk);
  tokenize(*lines_, result);
}

void ChunkTokenizer::tokenize(const RowChunk& chunk, Batch& result) {
  rows_.open(chunk);
  tokenize(rows_, result);
}

void ChunkTokenizer::tokenize(DocumentReader& documents, Batch& result) {
  result.clear(rules_.json_keys.size());
  const int64_t num_dropped_before = tokenizer_.num_dropped_bytes();
  while (documents.next()) {
    ++result.num_lines;
    LineOutcome outcome = documents.outcome();
    if (outcome.problem == LineProblem::kNone) {
      if (!holds(rules_.where, documents, result.left_out)) continue;
      outcome = type_ == TokenType::kUInt16 ? append_document<uint16_t>(documents, result)
                                            : append_document<int32_t>(documents, result);
    }
    if (outcome.problem == LineProblem::kNone) continue;
    result.bad_line_counts.add(outcome.problem);
    if (std::ssize(result.bad_lines) < kNumShownBadLines) {
      result.bad_lines.push_back(documents.describe(std::move(outcome)));
      result.bad_lines.back().line_number = result.num_lines;
    }
    if (rules_.on_bad_line == OnBadLine::kStop) break;
  }
  result.num_dropped_bytes = tokenizer_.num_dropped_bytes() - num_dropped_before;
}

// A line is a document under every key or under none: a line that turns out to be bad leaves
// nothing behind.
template <typename Id>
LineOutcome ChunkTokenizer::append_document(DocumentReader& document, Batch& result) {
  for (size_t k = 0; k < marks_.size(); ++k) {
    Batch::Output& output = result.outputs[k];
    marks_[k] = {output.num_tokens(), output.num_sequences()};
    try {
      append_texts<Id>(document, k, output);
    } catch (const SpecialTokenInText& found) {
      for (size_t i = 0; i <= k; ++i)
        result.outputs[i].cut(marks_[i].num_tokens, marks_[i].num_sequences);
      return {LineProblem::kSpecialToken, found.content() + " in \"" + rules_.json_keys[k] + "\"",
              0};
    }
  }
  const Origin origin = rules_.keeps_origins() ? document.origin() : Origin{};
  for (size_t k = 0; k < marks_.size(); ++k) {
    end_document<Id>(marks_[k], document.locator(), origin, result.outputs[k], result);
  }
  result.num_replaced_surrogates += document.num_replaced_surrogates();
  ++result.num_documents;
  return {};
}

// Tokenizes every text of one key on its own; one without tokens leaves no sequence. Throws
// SpecialTokenInText where a text has one and must not.
template <typename Id>
void ChunkTokenizer::append_texts(DocumentReader& document, size_t key_idx, Batch::Output& output) {
  document.each_text(key_idx, [&](std::string_view text) {
    const int64_t begin = output.num_tokens();
    if (rules_.add_special_tokens) {
      tokenizer_.encode_with_template(text, output.tokens<Id>());
    } else {
      tokenizer_.encode(text, output.tokens<Id>());
    }
    if (output.num_tokens() > begin) {
      output.sequence_lengths.push_back(static_cast<int32_t>(output.num_tokens() - begin));
    }
    return true;
  });
}

// Megatron-LM tools/preprocess_data.py: the end-of-document token is one more of the last sequence;
// a document without tokens gets none.
template <typename Id>
void ChunkTokenizer::end_document(const Mark& before, int64_t locator, const Origin& origin,
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
  output.locators.push_back(locator);
  if (rules_.keeps_origins()) output.origins.push_back(origin);
  result.num_tokens += output.num_tokens() - before.num_tokens;
}

}  // namespace weft
