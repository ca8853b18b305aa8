#include "preprocess/report/document_excerpt.h"

#include <bit>
#include <mutex>
#include <stdexcept>
#include <string>

#include "indexed_dataset/process/parallel_for.h"
#include "indexed_dataset/soundness/xxh3.h"

namespace weft {
namespace {

// A thread takes documents of so many tokens at a time, which keep it busy for a few milliseconds.
constexpr int64_t kRangeTokens = 1 << 20;

// Examines one document after another.
class DocumentExaminer {
 public:
  DocumentExaminer(const ReportContext& context, Findings& findings)
      : context_(context), findings_(findings) {}

  void examine(int64_t document_idx) {
    const int64_t num_tokens = context_.documents.num_tokens(document_idx);
    ++findings_
          .length_histogram[static_cast<size_t>(std::bit_width(static_cast<uint64_t>(num_tokens)))];
    if (context_.sources != nullptr) count_input(document_idx, num_tokens);
    if (num_tokens == 0) {
      ++findings_.num_empty;
      return;
    }
    const int64_t num_own_tokens = num_tokens - (ends_with_eod(document_idx) ? 1 : 0);
    RepeatedCharacters characters;
    runs_.begin(static_cast<uint64_t>(document_idx));
    XXH3_state_t hash;
    XXH3_128bits_reset(&hash);
    context_.documents.for_each_piece(
        document_idx, ids_, num_own_tokens, [&](std::span<const int32_t> ids) {
          XXH3_128bits_update(&hash, ids.data(), ids.size_bytes());
          runs_.add(ids);
          if (context_.texts != nullptr)
            findings_.num_text_bytes += context_.texts->add_to(characters, ids);
        });
    characters.end();
    if (num_own_tokens > 0) {
      const XXH128_hash_t digest = XXH3_128bits_digest(&hash);
      context_.equal_texts.set(document_idx, digest.high64, digest.low64);
    }
    rate(document_idx, num_tokens, num_own_tokens, characters);
  }

 private:
  bool ends_with_eod(int64_t document_idx) const {
    if (context_.end_of_document < 0) return false;
    return context_.documents.last_token(document_idx) == context_.end_of_document;
  }

  void count_input(int64_t document_idx, int64_t num_tokens) {
    const uint32_t input_idx = context_.sources->entry(document_idx).input_idx;
    if (input_ == nullptr || input_idx != input_idx_) {
      input_ = &findings_.inputs[input_idx];
      input_idx_ = input_idx;
    }
    ++input_->num_documents;
    input_->num_tokens += num_tokens;
  }

  void rate(int64_t document_idx, int64_t num_tokens, int64_t num_own_tokens,
            const RepeatedCharacters& characters) {
    ReportedDocument document{document_idx, num_tokens, 0, "", ""};
    bool is_repetitive = false;
    findings_.longest.add(static_cast<double>(num_tokens), document);
    const auto add = [&](TopList& list, int64_t num_repeated, int64_t count,
                         double suspicious_ratio) {
      document.ratio = static_cast<double>(num_repeated) / static_cast<double>(count);
      is_repetitive |= document.ratio >= suspicious_ratio;
      if (num_repeated > 0) list.add(document.ratio, document);
    };
    if (characters.num_characters() >= kMinRatedCharacters)
      add(findings_.repeated_characters, characters.num_repeated(), characters.num_characters(),
          kRepetitiveCharacters);
    if (num_own_tokens >= kMinRatedTokens)
      add(findings_.repeated_tokens, runs_.num_repeated(), num_own_tokens, kRepetitiveTokens);
    findings_.num_repetitive += is_repetitive;
  }

  const ReportContext& context_;
  Findings& findings_;
  RepeatedRuns runs_;
  std::vector<int32_t> ids_;
  ReportedInput* input_ = nullptr;
  uint32_t input_idx_ = 0;
};

// Cuts the documents into ranges [begin, end) of about kRangeTokens tokens.
std::vector<std::pair<int64_t, int64_t>> cut_into_ranges(const Documents& documents) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  int64_t begin = 0, num_tokens = 0;
  for (int64_t i = 0; i < documents.count(); ++i) {
    // A document without tokens costs a little time, too.
    num_tokens += documents.num_tokens(i) + 16;
    if (num_tokens < kRangeTokens && i + 1 < documents.count()) continue;
    ranges.emplace_back(begin, i + 1);
    begin = i + 1;
    num_tokens = 0;
  }
  return ranges;
}

}  // namespace

int64_t Documents::num_tokens(int64_t i) const {
  int64_t sum = 0;
  const auto [first, last] = sequences(i);
  for (int64_t k = first; k < last; ++k) {
    if (reader_.length(k) < 0) throw_damaged("length of sequence " + std::to_string(k));
    sum += reader_.length(k);
  }
  return sum;
}

int32_t Documents::last_token(int64_t i) const {
  const auto [first, last] = sequences(i);
  int32_t id = -1;
  for (int64_t k = last; k-- > first && id < 0;) {
    if (reader_.length(k) > 0) reader_.copy_tokens(k, reader_.length(k) - 1, 1, &id);
  }
  return id;
}

std::pair<int64_t, int64_t> Documents::sequences(int64_t i) const {
  if (!has_bounds_) return {i, i + 1};
  const int64_t first = reader_.document_bound(i), last = reader_.document_bound(i + 1);
  if (first < 0 || last < first || last > reader_.num_sequences())
    throw_damaged("document bound " + std::to_string(i + 1));
  return {first, last};
}

void Documents::throw_damaged(const std::string& what) const {
  throw std::runtime_error(reader_.prefix().string() + ".idx: " + what +
                           " is impossible: the index is damaged (weft-data verify)");
}

void TopList::add(double score, const ReportedDocument& document) {
  if (entries_.size() == kNumReported && !(Entry{score, document} < entries_.back())) return;
  entries_.push_back({score, document});
  std::sort(entries_.begin(), entries_.end());
  if (entries_.size() > kNumReported) entries_.pop_back();
}

std::vector<ReportedDocument> TopList::documents() const {
  std::vector<ReportedDocument> result;
  for (const Entry& entry : entries_) result.push_back(entry.document);
  return result;
}

void Findings::add(const Findings& other) {
  for (size_t k = 0; k < length_histogram.size(); ++k)
    length_histogram[k] += other.length_histogram[k];
  num_empty += other.num_empty;
  num_text_bytes += other.num_text_bytes;
  num_repetitive += other.num_repetitive;
  longest.add_all(other.longest);
  repeated_characters.add_all(other.repeated_characters);
  repeated_tokens.add_all(other.repeated_tokens);
  for (const auto& [input_idx, input] : other.inputs) {
    inputs[input_idx].num_documents += input.num_documents;
    inputs[input_idx].num_tokens += input.num_tokens;
  }
}

Findings examine_documents(const ReportContext& context, int num_threads) {
  Findings all;
  std::mutex mutex;
  const auto ranges = cut_into_ranges(context.documents);
  parallel_for(std::ssize(ranges), num_threads, [&](int64_t i) {
    Findings findings;
    DocumentExaminer examiner(context, findings);
    const auto [begin, end] = ranges[static_cast<size_t>(i)];
    for (int64_t k = begin; k < end; ++k) examiner.examine(k);
    const std::lock_guard lock(mutex);
    all.add(findings);
  });
  return all;
}

}  // namespace weft
