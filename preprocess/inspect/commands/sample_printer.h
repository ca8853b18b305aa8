// Prints samples, each with the documents that it is made of, as text, JSON lines or a page of
// HTML.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "indexed_dataset/base/terminal/option_set.h"
#include "preprocess/inspect/commands/output.h"
#include "preprocess/inspect/lookup/sample_place.h"
#include "preprocess/inspect/lookup/taken_samples.h"
#include "tokenizer/vocabulary.h"

namespace weft {

enum class SampleFormat { kText, kJsonl, kHtml };
void declare_sample_format(OptionSet& options, SampleFormat& format);

// Print the begin and the end of an HTML page around the samples, which loads nothing from
// elsewhere; the other formats have none. `title` is escaped here.
void print_page_head(SampleFormat format, const std::string& title);
void print_page_end(SampleFormat format);

// The part of a sample's loss that is printed.
struct LossNote {
  std::string text;             // of the sample, for people
  nlohmann::ordered_json json;  // the members that it adds to the sample's object
  // The same for each part of the sample, in order.
  std::vector<std::string> part_texts;
  std::vector<nlohmann::ordered_json> part_jsons;
};

class SamplePrinter {
 public:
  // `samples` must outlive it. `vocabulary` may be null: the text is then left out.
  // `has_several_datasets`: parts of the run read several, of which a document alone does not name
  // one.
  SamplePrinter(SampleFormat format, const TakenSamples& samples, std::string split_name,
                std::shared_ptr<const Vocabulary> vocabulary, bool has_several_datasets)
      : format_(format),
        samples_(samples),
        split_name_(std::move(split_name)),
        vocabulary_(std::move(vocabulary)),
        has_several_datasets_(has_several_datasets) {}

  // `place` says when the run took it; `note`, if there is one, what it lost. Throws as
  // TakenSamples::tokens().
  void print(int64_t sample_idx, const SamplePlace& place, const LossNote* note = nullptr);

 private:
  struct Sample;
  std::string piece_of(const Sample& sample) const;
  const char* unseen_text(const Sample& sample, const SamplePart& part) const;
  void print_text(const Sample& sample) const;
  void print_json(const Sample& sample) const;
  void print_html(const Sample& sample) const;

  const SampleFormat format_;
  const TakenSamples& samples_;
  SourceMaps sources_;
  std::string split_name_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  bool has_several_datasets_;
};

}  // namespace weft
