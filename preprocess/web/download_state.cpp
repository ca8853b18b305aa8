#include "preprocess/web/download_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "indexed_dataset/process/parse_json.h"

namespace weft {
namespace {

using Json = nlohmann::json;

std::optional<std::string> text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::optional<int64_t> number_of(const Json& json) {
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX) return std::nullopt;
  if (!json.is_number_integer()) return std::nullopt;
  return json.get<int64_t>();
}

// The end of an endless range is -1 in the file.
std::optional<std::vector<ByteRange>> ranges_of(const Json& json, int64_t size_bytes) {
  if (!json.is_array()) return std::nullopt;
  std::vector<ByteRange> ranges;
  const int64_t limit = size_bytes >= 0 ? size_bytes : FetchPlan::kEndless;
  for (const Json& pair : json) {
    if (!pair.is_array() || pair.size() != 2) return std::nullopt;
    const auto begin = number_of(pair[0]);
    auto end = number_of(pair[1]);
    if (!begin || !end) return std::nullopt;
    if (*end == -1) end = FetchPlan::kEndless;
    const bool is_behind = ranges.empty() ? *begin >= 0 : *begin > ranges.back().end;
    if (!is_behind || *end <= *begin || *end > limit) return std::nullopt;
    ranges.push_back({*begin, *end});
  }
  return ranges;
}

}  // namespace

std::string to_json(const DownloadState& state) {
  Json missing = Json::array();
  for (const ByteRange& range : state.missing)
    missing.push_back({range.begin, range.end == FetchPlan::kEndless ? -1 : range.end});
  const Json json{{"version", 1},
                  {"url", state.url},
                  {"size_bytes", state.identity.size_bytes},
                  {"etag", state.identity.etag},
                  {"last_modified", state.identity.last_modified},
                  {"missing", missing}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<DownloadState> parse_download_state(std::string_view text, int64_t part_bytes) {
  Json json;
  try {
    json = parse_json<Json>(text);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  if (!json.is_object() || json.value("version", Json()) != 1) return std::nullopt;
  const auto url = text_of(json, "url"), etag = text_of(json, "etag"),
             last_modified = text_of(json, "last_modified");
  const auto size_bytes = number_of(json.value("size_bytes", Json()));
  if (!url || !etag || !last_modified || !size_bytes || *size_bytes < -1) return std::nullopt;
  // They go back to the server in headers.
  if (!etag->empty() && !is_clean_validator(*etag, /*is_etag=*/true)) return std::nullopt;
  if (!last_modified->empty() && !is_clean_validator(*last_modified, /*is_etag=*/false))
    return std::nullopt;
  const auto missing = ranges_of(json.value("missing", Json()), *size_bytes);
  if (!missing) return std::nullopt;
  DownloadState state{*url, {*size_bytes, *etag, *last_modified}, *missing};
  if (state.identity.validator().empty()) return std::nullopt;
  // Where the last of what is said to be there ends.
  int64_t claimed = 0;
  int64_t previous_end = 0;
  for (const ByteRange& range : *missing) {
    if (range.begin > previous_end) claimed = range.begin;
    previous_end = range.end;
  }
  if (*size_bytes > previous_end) claimed = *size_bytes;
  if (missing->empty() && *size_bytes < 0) return std::nullopt;
  if (claimed > part_bytes) return std::nullopt;
  return state;
}

}  // namespace weft
