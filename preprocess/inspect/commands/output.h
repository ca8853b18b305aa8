// The commands of weft-data inspect share these parts of their records and messages.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "indexed_dataset/format/pair/reader.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "preprocess/inspect/commands/record.h"
#include "preprocess/inspect/lookup/sample_place.h"
#include "tokenizer/vocabulary.h"

namespace weft {

// As find_dataset_vocabulary(), with a message where there is none.
std::shared_ptr<const Vocabulary> find_vocabulary(const std::filesystem::path& prefix,
                                                  const TokenizerFiles& given);

// Tells people that an iteration behind `last_trained` is still to come. Returns true if it is;
// nothing is known of runs that do not tell how far they have come.
bool print_if_to_come(int64_t iteration, std::optional<int64_t> last_trained);

// Adds the line of the corpus that a document came from; in ~source for people.
void add_source(Record& record, const std::optional<SourceMap>& sources, int64_t document_idx);
// Adds iteration, rank, micro-batch and slot as far as they are known; in ~place for people.
void add_place(Record& record, const SamplePlace& place);
// Adds which tokens a piece has; where they end in ~end_token for people.
void add_tokens(Record& record, const SamplePart& part);

// The source maps of datasets, each opened when it is asked for.
class SourceMaps {
 public:
  const std::optional<SourceMap>& of(const DatasetReader& reader);

 private:
  std::map<const DatasetReader*, std::optional<SourceMap>> maps_;
};

}  // namespace weft
