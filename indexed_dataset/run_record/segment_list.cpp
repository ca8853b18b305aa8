#include "indexed_dataset/run_record/segment_list.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/run_record/manifest_checksum.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kUnchanged = "unchanged";

}  // namespace

Json list_segments(const std::vector<Json>& segments) {
  Json list = Json::array();
  const Json* before = nullptr;
  for (const Json& segment : segments) {
    Json listed = segment;
    for (auto& [name, value] : listed.items()) {
      if (!before || !value.is_structured()) continue;
      const auto same = before->find(name);
      if (same != before->end() && *same == value) value = kUnchanged;
    }
    list.push_back(std::move(listed));
    before = &segment;
  }
  return list;
}

std::vector<Json> segments_of_list(const Json& list) {
  if (!list.is_array()) throw std::runtime_error("its segments are no list");
  std::vector<Json> segments;
  for (const Json& listed : list) {
    if (!listed.is_object()) throw std::runtime_error("one of its segments is no object");
    Json segment = listed;
    for (auto& [name, value] : segment.items()) {
      if (value != kUnchanged || segments.empty()) continue;
      const auto before = segments.back().find(name);
      // A text of that name, such as a host's, is itself.
      if (before != segments.back().end() && before->is_structured()) value = *before;
    }
    segments.push_back(std::move(segment));
  }
  return segments;
}

std::vector<Json> read_manifest_segments(const std::filesystem::path& path) {
  Json manifest = parse_json<Json>(read_file(path));
  take_checksum(manifest, path,
                "put back the file that the run wrote, or name one of its checkpoints, which tells "
                "what led to it: --load in place of --run");
  std::vector<Json> segments = segments_of_list(manifest.at("earlier"));
  manifest.erase("earlier");
  segments.push_back(std::move(manifest));
  return segments;
}

}  // namespace weft
