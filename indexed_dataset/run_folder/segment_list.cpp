#include "indexed_dataset/run_folder/segment_list.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

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

std::vector<Json> segments_of_manifest(Json manifest) {
  std::vector<Json> segments = segments_of_list(manifest.value("earlier", Json::array()));
  manifest.erase("earlier");
  segments.push_back(std::move(manifest));
  return segments;
}

}  // namespace weft
