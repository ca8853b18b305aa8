#include "preprocess/analyze/sample_metrics.h"

#include <zstd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <numeric>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/inspect/text/document_facts.h"

namespace weft {
namespace {

class VocabRarity final : public SampleMetric {
 public:
  explicit VocabRarity(const std::vector<double>& rarities) : rarities_(rarities) {}
  // Several sums go on side by side: one addition after the other would wait for each.
  int64_t measure(const MeasuredSample& sample) override {
    check_ids(sample.tokens);
    constexpr size_t kLanes = 4;
    double sums[kLanes] = {};
    size_t i = 0;
    for (; i + kLanes <= sample.tokens.size(); i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += rarity(sample.tokens[i + lane]);
    }
    for (; i < sample.tokens.size(); ++i) sums[0] += rarity(sample.tokens[i]);
    return static_cast<int64_t>((sums[0] + sums[1]) + (sums[2] + sums[3]));
  }

 private:
  void check_ids(std::span<const int32_t> tokens) const {
    int32_t max = 0;
    for (const int32_t id : tokens) max = std::max(max, id);
    if (static_cast<size_t>(max) < rarities_.size()) return;
    throw std::runtime_error(
        "token id " + std::to_string(max) +
        " was not there when tokens were counted: was the dataset changed meanwhile? Analyze again");
  }
  double rarity(int32_t id) const { return rarities_[static_cast<size_t>(id)]; }
  const std::vector<double>& rarities_;
};

// Returns the mean of a value of documents over the tokens of a sample, rounded down. A document
// may have more than 2^32 tokens, so that sums need more than 64 bits.
template <typename ValueOf>
int64_t mean_over_tokens(const MeasuredSample& sample, const ValueOf& value_of) {
  __extension__ using Wide = __int128;
  Wide sum = 0;
  int64_t num_tokens = 0;
  for (const SamplePart& part : sample.parts) {
    sum += static_cast<Wide>(value_of(part.document_idx)) * part.num_tokens;
    num_tokens += part.num_tokens;
  }
  if (num_tokens == 0) return 0;
  const auto mean = static_cast<int64_t>(sum / num_tokens);
  return mean - (sum < 0 && sum % num_tokens != 0 ? 1 : 0);
}

class DocumentLength final : public SampleMetric {
 public:
  int64_t measure(const MeasuredSample& sample) override {
    return mean_over_tokens(sample, [&](int64_t document_idx) {
      return num_tokens_of_document(*sample.reader, document_idx);
    });
  }
};

class RepeatedTokens final : public SampleMetric {
 public:
  int64_t measure(const MeasuredSample& sample) override {
    runs_.begin(static_cast<uint64_t>(sample.sample_idx));
    runs_.add(sample.tokens);
    return runs_.num_repeated() * 1'000'000 / std::ssize(sample.tokens);
  }

 private:
  RepeatedRuns runs_;
};

class CompressedSize final : public SampleMetric {
 public:
  CompressedSize() : context_(ZSTD_createCCtx(), ZSTD_freeCCtx) {
    if (!context_) throw std::bad_alloc();
  }
  int64_t measure(const MeasuredSample& sample) override {
    const int64_t token_bytes = size_bytes(sample.reader->token_type());
    const size_t num_bytes = sample.tokens.size() * static_cast<size_t>(token_bytes);
    bytes_.resize(num_bytes);
    for (size_t i = 0; i < sample.tokens.size(); ++i) {
      const auto id = static_cast<int64_t>(sample.tokens[i]);
      std::memcpy(bytes_.data() + i * static_cast<size_t>(token_bytes), &id,
                  static_cast<size_t>(token_bytes));
    }
    compressed_.resize(ZSTD_compressBound(num_bytes));
    const size_t size = ZSTD_compressCCtx(context_.get(), compressed_.data(), compressed_.size(),
                                          bytes_.data(), num_bytes, 1);
    if (ZSTD_isError(size) != 0)
      throw std::logic_error(std::string("zstd: ") + ZSTD_getErrorName(size));
    return static_cast<int64_t>(size);
  }

 private:
  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> context_;
  std::vector<char> bytes_, compressed_;
};

class SampleScores final : public SampleMetric {
 public:
  explicit SampleScores(std::span<const int64_t> scores) : scores_(scores) {}
  int64_t measure(const MeasuredSample& sample) override {
    return scores_[static_cast<size_t>(sample.sample_idx)];
  }

 private:
  std::span<const int64_t> scores_;
};

class DocumentScores final : public SampleMetric {
 public:
  explicit DocumentScores(const std::vector<std::vector<int64_t>>& scores) : scores_(scores) {}
  int64_t measure(const MeasuredSample& sample) override {
    const std::vector<int64_t>& scores = scores_[static_cast<size_t>(sample.dataset_idx)];
    return mean_over_tokens(
        sample, [&](int64_t document_idx) { return scores[static_cast<size_t>(document_idx)]; });
  }

 private:
  const std::vector<std::vector<int64_t>>& scores_;
};

}  // namespace

std::vector<double> rarity_of_tokens(std::span<const int64_t> counts) {
  // Megatron-DeepSpeed takes zero counts as one before it sums.
  double total = 0;
  for (const int64_t count : counts) total += static_cast<double>(std::max<int64_t>(count, 1));
  std::vector<double> rarities;
  rarities.reserve(counts.size());
  for (const int64_t count : counts)
    rarities.push_back(-std::log(static_cast<double>(std::max<int64_t>(count, 1)) / total));
  return rarities;
}

int64_t num_tokens_of_document(const DatasetReader& reader, int64_t document_idx) {
  if (reader.num_documents() == 0) return reader.length(document_idx);
  const int64_t first = reader.document_bound(document_idx);
  const int64_t end = reader.document_bound(document_idx + 1);
  if (first < 0 || first > end || end > reader.num_sequences())
    throw std::runtime_error(reader.prefix().string() + ".idx: document " +
                             std::to_string(document_idx) + " has the sequences from " +
                             std::to_string(first) + " to " + std::to_string(end) +
                             ": the index is damaged");
  if (first == end) return 0;
  const int64_t last_bytes = reader.length(end - 1) * size_bytes(reader.token_type());
  return (reader.offset_bytes(end - 1) + last_bytes - reader.offset_bytes(first)) /
         size_bytes(reader.token_type());
}

std::unique_ptr<SampleMetric> make_sample_metric(const std::string& name,
                                                 const std::vector<double>& rarities) {
  if (name == kVocabRarity) return std::make_unique<VocabRarity>(rarities);
  if (name == "document_length") return std::make_unique<DocumentLength>();
  if (name == "repeated_tokens") return std::make_unique<RepeatedTokens>();
  if (name == "compressed_size") return std::make_unique<CompressedSize>();
  throw UsageError("--metric " + name +
                   " is none of vocab_rarity, document_length, repeated_tokens, "
                   "compressed_size");
}

std::unique_ptr<SampleMetric> make_sample_scores(std::span<const int64_t> scores) {
  return std::make_unique<SampleScores>(scores);
}

std::unique_ptr<SampleMetric> make_document_scores(
    const std::vector<std::vector<int64_t>>& scores) {
  return std::make_unique<DocumentScores>(scores);
}

}  // namespace weft
