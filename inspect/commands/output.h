// The commands of weft-data inspect share these parts of their output.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "indexed_dataset/beside/source_map.h"
#include "indexed_dataset/terminal/option_set.h"
#include "tokenizer/vocabulary.h"

namespace weft {

void declare_format(OptionSet& options, bool& as_json);

// As find_dataset_vocabulary(), with a message where there is none.
std::shared_ptr<const Vocabulary> find_vocabulary(const std::filesystem::path& prefix,
                                                  const std::filesystem::path& vocab_file,
                                                  const std::filesystem::path& merge_file);

void add_source(nlohmann::ordered_json& json, const std::optional<SourceMap>& sources,
                int64_t document_idx);

// Documents may begin or end within a character: such bytes become U+FFFD. On a terminal everything
// but ASCII is escaped, which is the same JSON: a terminal obeys controls beyond ASCII, too.
void print_line(const nlohmann::ordered_json& json);

}  // namespace weft
