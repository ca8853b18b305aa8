// A dataset of a run with what is needed to find its documents.
#pragma once

#include <optional>
#include <string>

#include "indexed_dataset/format/pair/reader.h"
#include "indexed_dataset/format/sidecars/documents.h"
#include "indexed_dataset/format/sidecars/source_map.h"

namespace weft {

struct OpenDataset {
  // Throws as DatasetReader and open_source_map_of().
  explicit OpenDataset(const std::string& prefix)
      : reader(prefix), documents(reader), sources(open_source_map_of(reader)) {}

  DatasetReader reader;
  Documents documents;
  std::optional<SourceMap> sources;  // nothing if there is none beside it
};

}  // namespace weft
