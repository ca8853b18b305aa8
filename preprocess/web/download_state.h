// What a download that was interrupted leaves beside its part: NAME.part.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/web/fetch_plan.h"
#include "preprocess/web/url.h"

namespace weft {

struct DownloadState {
  std::string url;  // as display_url() shows it; signatures stay out of files
  UrlIdentity identity;
  std::vector<ByteRange> missing;  // of NAME.part; ascending, disjoint; the last one may be endless
};

std::string to_json(const DownloadState& state);

// Nothing for anything that to_json() would not have made for a part of `part_bytes`, such as a
// state that claims bytes behind its end: the download then starts over.
std::optional<DownloadState> parse_download_state(std::string_view json, int64_t part_bytes);

}  // namespace weft
