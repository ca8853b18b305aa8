#include "preprocess/web/download_state.h"

#include <nlohmann/json.hpp>

#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parse_json.h"

namespace weft {
namespace {

using Json = nlohmann::json;

Json json_of(const DownloadState& state) {
  return {{"version", 2},
          {"url", state.url},
          {"size_bytes", state.identity.size_bytes},
          {"etag", state.identity.etag},
          {"last_modified", state.identity.last_modified},
          {"num_bytes", state.num_bytes}};
}

// They go back to the server in headers.
bool has_clean_validators(const UrlIdentity& identity) {
  return !identity.validator().empty() &&
         (identity.etag.empty() || is_clean_validator(identity.etag, /*is_etag=*/true)) &&
         (identity.last_modified.empty() ||
          is_clean_validator(identity.last_modified, /*is_etag=*/false));
}

}  // namespace

std::string to_json(const DownloadState& state) {
  return json_of(state).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<DownloadState> parse_download_state(std::string_view text, int64_t part_bytes) {
  DownloadState state;
  try {
    const Json json = parse_json<Json>(text);
    json.at("url").get_to(state.url);
    state.identity.size_bytes = json_integer_at(json, "size_bytes");
    json.at("etag").get_to(state.identity.etag);
    json.at("last_modified").get_to(state.identity.last_modified);
    state.num_bytes = json_integer_at(json, "num_bytes");
    // Another version, or other keys.
    if (json != json_of(state)) return std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
  const int64_t size_bytes = state.identity.size_bytes;
  if (size_bytes < -1 || state.num_bytes < 0 || state.num_bytes > part_bytes ||
      (size_bytes >= 0 && state.num_bytes > size_bytes) ||
      (state.num_bytes > 0 && !has_clean_validators(state.identity))) {
    return std::nullopt;
  }
  return state;
}

}  // namespace weft
