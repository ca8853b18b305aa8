// The commands of weft-data inspect share these parts of their output.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "indexed_dataset/base/terminal/option_set.h"
#include "indexed_dataset/format/pair/reader.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "preprocess/inspect/lookup/sample_place.h"
#include "tokenizer/vocabulary.h"

namespace weft {

void declare_format(OptionSet& options, bool& as_json);

// As find_dataset_vocabulary(), with a message where there is none.
std::shared_ptr<const Vocabulary> find_vocabulary(const std::filesystem::path& prefix,
                                                  const TokenizerFiles& given);

void add_source(nlohmann::ordered_json& json, const std::optional<SourceMap>& sources,
                int64_t document_idx);

// "iteration 30, rank 1, micro-batch 4, slot 0", as far as it is known.
// Tells people that an iteration behind `last_trained` is still to come. Returns true if it is;
// nothing is known of runs that do not tell how far they have come.
bool print_if_to_come(int64_t iteration, std::optional<int64_t> last_trained);

std::string describe(const SamplePlace& place);
// The same as members of a JSON object.
void add_place(nlohmann::ordered_json& json, const SamplePlace& place);

// The source maps of datasets, each opened when it is asked for.
class SourceMaps {
 public:
  const std::optional<SourceMap>& of(const DatasetReader& reader);

 private:
  std::map<const DatasetReader*, std::optional<SourceMap>> maps_;
};

// Documents may begin or end within a character: such bytes become U+FFFD. On a terminal everything
// but ASCII is escaped, which is the same JSON: a terminal obeys controls beyond ASCII, too.
void print_line(const nlohmann::ordered_json& json);

}  // namespace weft
