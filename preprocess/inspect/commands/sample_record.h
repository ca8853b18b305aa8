// Makes records of samples: where the run took one, and of which pieces of documents it is made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "preprocess/inspect/commands/output.h"
#include "preprocess/inspect/lookup/taken_samples.h"
#include "tokenizer/vocabulary.h"

namespace weft {

// The losses of a sample, as members of its record and of those of its parts, in order.
struct LossNote {
  Record sample;
  std::vector<Record> parts;
};

class SampleRecords {
 public:
  // `samples` and `names`, those of the run's datasets, must outlive it. `vocabulary` may be null:
  // the text is then left out.
  SampleRecords(const TakenSamples& samples, std::shared_ptr<const Vocabulary> vocabulary,
                const DatasetNames& names)
      : samples_(samples), vocabulary_(std::move(vocabulary)), names_(names) {}

  // Prints a whole sample with its ids and texts. `place` says when the run took it; `note`, if
  // there is one, what it lost. Throws as TakenSamples::tokens().
  void print(Format format, const std::string& split_name, int64_t sample_idx,
             const SamplePlace& place, const LossNote* note = nullptr);
  // Adds "dataset", "documents", those with most tokens first, and "text", the beginning of the
  // first one, to the record of a sample in a list of many.
  void add_documents(Record& record, int64_t sample_idx);

 private:
  Record part_record(const DatasetReader& reader, const SamplePart& part);

  const TakenSamples& samples_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  const DatasetNames& names_;
  SourceMaps sources_;
};

// These print the begin and the end of a page around its samples, which loads nothing from
// elsewhere; other formats have none.
void print_page_head(Format format, const std::string& title);
void print_page_end(Format format);

}  // namespace weft
