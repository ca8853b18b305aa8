// Measures samples. Every value is an integer, as DeepSpeed's curricula need; larger means
// harder, rarer or longer.
//
//   vocab_rarity      the sum over the sample's tokens of -ln(share of the token in the training set),
//                     rounded down: DeepSpeed's metric for GPT [Megatron-DeepSpeed
//                     examples_deepspeed/data_efficiency/analyze_data.py]
//   document_length   the mean, over the sample's tokens, of the length in tokens of the document that the
//                     token is from. Samples of GPT are full, so that DeepSpeed's seqlen (tokens
//                     without padding) has one value for all of them
//   repeated_tokens   millionths of the tokens that end a run of four tokens which the sample has had before
//   compressed_size   bytes of the sample's tokens, as they lie in the .bin, after zstd's level 1
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "indexed_dataset/order/samples/gpt_dataset.h"

namespace weft {

struct MeasuredSample {
  int64_t sample_idx = 0;   // in the order of training
  int64_t dataset_idx = 0;  // of the blend
  const DatasetReader* reader = nullptr;
  std::span<const int32_t> tokens;  // L + 1 of them
  std::span<const SamplePart> parts;
};

// Measures samples; each thread needs its own.
class SampleMetric {
 public:
  virtual ~SampleMetric() = default;
  virtual int64_t measure(const MeasuredSample& sample) = 0;
};

inline constexpr const char* kVocabRarity = "vocab_rarity";
inline constexpr const char* kMetricNames[] = {kVocabRarity, "document_length", "repeated_tokens",
                                               "compressed_size"};

// Returns the natural logarithm of total / count for each token; a token that never occurs counts
// once.
std::vector<double> rarity_of_tokens(std::span<const int64_t> counts);

// Returns the tokens of all sequences of a document. They lie one after the other, so that where
// the first one begins and the last one ends is all that is looked at. Throws std::runtime_error
// for damaged document bounds.
int64_t num_tokens_of_document(const DatasetReader& reader, int64_t document_idx);

// Makes one of kMetricNames. `rarities` must outlive the metric, and is read by vocab_rarity only.
std::unique_ptr<SampleMetric> make_sample_metric(const std::string& name,
                                                 const std::vector<double>& rarities);

// Takes the values of a user, by the number of the sample; or by dataset and document, of which a
// sample has the mean over its tokens, rounded down. `scores` must outlive the metric.
std::unique_ptr<SampleMetric> make_sample_scores(std::span<const int64_t> scores);
std::unique_ptr<SampleMetric> make_document_scores(const std::vector<std::vector<int64_t>>& scores);

}  // namespace weft
