// The state that a download keeps beside its part, for the next call: NAME.part.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "preprocess/web/url.h"

namespace weft {

struct DownloadState {
  std::string url;  // url_without_secrets()
  UrlIdentity identity;
  int64_t num_bytes = 0;  // the first ones of the file, which NAME.part has on the disk
};

std::string to_json(const DownloadState& state);

// Returns nothing for anything that to_json() would not have made for a part of `part_bytes`, such
// as a state that claims more bytes: the download then starts over.
std::optional<DownloadState> parse_download_state(std::string_view json, int64_t part_bytes);

}  // namespace weft
