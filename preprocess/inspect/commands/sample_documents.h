// Tells in a few words what a sample is made of, for lists of many samples.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "preprocess/inspect/commands/output.h"
#include "preprocess/inspect/lookup/taken_samples.h"
#include "tokenizer/vocabulary.h"

namespace weft {

class SampleDocuments {
 public:
  // `samples` and `names`, those of the run's datasets, must outlive it. `vocabulary` may be null:
  // no text is shown then.
  SampleDocuments(const TakenSamples& samples, std::shared_ptr<const Vocabulary> vocabulary,
                  const DatasetNames& names)
      : samples_(samples), vocabulary_(std::move(vocabulary)), names_(names) {}

  // Returns the documents of a sample, those with most tokens first, each with its source, and how
  // the first one begins; on one line, safe to print.
  std::string line_of(int64_t sample_idx);
  struct Document {
    std::string prefix;  // of its dataset, in the first spelling that the run has
    int64_t document_idx = 0;
    std::string text;  // "document 77, corpus.jsonl, byte 1234"

    bool operator==(const Document& other) const {
      return prefix == other.prefix && document_idx == other.document_idx;
    }
  };
  // Returns the documents of a sample, those with most tokens first.
  std::vector<Document> documents_of(int64_t sample_idx);
  // Adds "dataset", "documents" and "text" (of the first document's tokens) to `json`.
  void add_to(nlohmann::ordered_json& json, int64_t sample_idx);

 private:
  struct Sample {
    const DatasetReader* reader = nullptr;
    std::string prefix;
    std::vector<SamplePart> parts;  // the longest first
  };
  Sample sample(int64_t sample_idx) const;
  std::string source_of(const Sample& sample, int64_t document_idx);
  std::string text_of(const Sample& sample) const;

  const TakenSamples& samples_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  const DatasetNames& names_;
  SourceMaps sources_;
};

}  // namespace weft
