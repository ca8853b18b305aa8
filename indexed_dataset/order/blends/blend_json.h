// The datasets of a run in its manifest: what the options named, after the files of lists were
// read, so that a run can be inspected when those files are gone or changed.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "indexed_dataset/order/blends/data_paths.h"

namespace weft {

// {"own_paths": bool, "train": [{"name": "", "prefixes": [...], "weights": [...], "shares": [[0,
// 0.9], ...]}, ...], "valid": ..., "test": ..., "changes": [{"blend": {...}, "from_samples": N},
// ...]}; the last one only where there are some. Weights and shares are exact: the shortest text
// that reads back as the same double.
nlohmann::ordered_json to_json(const SplitBlends& blends);

// Throws a JSON exception or std::runtime_error for anything that to_json() does not make.
SplitBlends split_blends_from_json(const nlohmann::ordered_json& json);

// Makes relative prefixes absolute, and keeps their spellings.
void resolve_prefixes(SplitBlends& blends, const std::filesystem::path& working_directory);

}  // namespace weft
