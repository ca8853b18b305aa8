#include "preprocess/inspect/report/document_examiner.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <numeric>
#include <span>
#include <utility>

#include "indexed_dataset/format/soundness/xxh3.h"

namespace weft {
namespace {

// Examines one document after another.
class DocumentExaminer {
 public:
  DocumentExaminer(const ReportContext& context, Findings& findings)
      : context_(context), findings_(findings), repetition_(context.texts) {}

  void examine(int64_t document_idx) {
    const int64_t num_tokens = context_.documents.num_tokens(document_idx);
    const auto bits = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(num_tokens)));
    ++findings_.length_histogram[bits];
    findings_.tokens_by_length[bits] += num_tokens;
    if (context_.sources != nullptr) {
      ReportedInput& input = findings_.inputs[context_.sources->entry(document_idx).input_idx];
      ++input.num_documents;
      input.num_tokens += num_tokens;
    }
    if (num_tokens == 0) {
      ++findings_.num_empty;
      return;
    }
    const bool has_end = ends_with_eod(document_idx);
    bool has_end_inside = false;
    const int64_t num_own_tokens = num_tokens - (has_end ? 1 : 0);
    repetition_.begin();
    XXH3_state_t hash;
    XXH3_128bits_reset(&hash);
    context_.documents.for_each_piece(
        document_idx, ids_, num_own_tokens, [&](std::span<const int32_t> ids) {
          XXH3_128bits_update(&hash, ids.data(), ids.size_bytes());
          has_end_inside |= std::ranges::find(ids, context_.end_of_document) != ids.end();
          findings_.num_text_bytes += repetition_.add(ids);
        });
    repetition_.end();
    findings_.num_without_end += !has_end;
    findings_.num_with_end_inside += has_end_inside;
    if (num_own_tokens > 0) {
      const XXH128_hash_t digest = XXH3_128bits_digest(&hash);
      context_.equal_texts.set(document_idx, digest.high64, digest.low64);
    }
    rate(document_idx, num_tokens);
  }

 private:
  bool ends_with_eod(int64_t document_idx) const {
    if (context_.end_of_document < 0) return false;
    return context_.documents.last_token(document_idx) == context_.end_of_document;
  }

  void rate(int64_t document_idx, int64_t num_tokens) {
    ReportedDocument document;
    document.document_idx = document_idx;
    document.num_tokens = num_tokens;
    bool is_repetitive = false;
    findings_.longest.add(document);
    const auto add = [&](TopDocuments& list, const RepetitionMeter::Share& share,
                         int64_t least_count, double suspicious_ratio) {
      if (share.count < least_count) return;
      document.ratio = share.value();
      is_repetitive |= document.ratio >= suspicious_ratio;
      if (share.num_repeated > 0) list.add(document);
    };
    add(findings_.repeated_characters, repetition_.characters(), kMinRatedCharacters,
        kRepetitiveCharacters);
    add(findings_.repeated_tokens, repetition_.tokens(), kMinRatedTokens, kRepetitiveTokens);
    findings_.num_repetitive += is_repetitive;
    if (is_repetitive) findings_.num_repetitive_tokens += num_tokens;
  }

  const ReportContext& context_;
  Findings& findings_;
  RepetitionMeter repetition_;
  std::vector<int32_t> ids_;
};

}  // namespace

bool is_longer(const ReportedDocument& a, const ReportedDocument& b) {
  if (a.num_tokens != b.num_tokens) return a.num_tokens > b.num_tokens;
  return a.document_idx < b.document_idx;
}

bool is_more_repetitive(const ReportedDocument& a, const ReportedDocument& b) {
  return a.ratio != b.ratio ? a.ratio > b.ratio : a.document_idx < b.document_idx;
}

void Findings::add(const Findings& other) {
  for (size_t k = 0; k < length_histogram.size(); ++k) {
    length_histogram[k] += other.length_histogram[k];
    tokens_by_length[k] += other.tokens_by_length[k];
  }
  num_empty += other.num_empty;
  num_text_bytes += other.num_text_bytes;
  num_repetitive += other.num_repetitive;
  num_repetitive_tokens += other.num_repetitive_tokens;
  num_without_end += other.num_without_end;
  num_with_end_inside += other.num_with_end_inside;
  longest.add_all(other.longest);
  repeated_characters.add_all(other.repeated_characters);
  repeated_tokens.add_all(other.repeated_tokens);
  for (const auto& [input_idx, input] : other.inputs) {
    inputs[input_idx].num_documents += input.num_documents;
    inputs[input_idx].num_tokens += input.num_tokens;
  }
}

Findings examine_documents(const ReportContext& context, int num_threads,
                           const std::function<void(int64_t num_tokens)>& see_tokens) {
  Findings all;
  std::mutex mutex;
  for_each_range(context.documents.count(), num_threads, [&](int64_t begin, int64_t end) {
    Findings findings;
    DocumentExaminer examiner(context, findings);
    for (int64_t i = begin; i < end; ++i) examiner.examine(i);
    const auto& counts = findings.tokens_by_length;
    see_tokens(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
    const std::lock_guard lock(mutex);
    all.add(findings);
  });
  return all;
}

}  // namespace weft
