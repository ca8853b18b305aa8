#include "preprocess/columnar/plugin/columns.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace weft {
namespace {

std::string list_of_names(const std::vector<std::string>& names) {
  constexpr size_t kMostShown = 12;
  if (names.empty()) return "the file has no columns";
  std::string text = "the file has the columns ";
  for (size_t i = 0; i < std::min(names.size(), kMostShown); ++i)
    text += (i == 0 ? "\"" : ", \"") + names[i] + '"';
  if (names.size() > kMostShown)
    text += " and " + std::to_string(names.size() - kMostShown) + " more";
  return text;
}

}  // namespace

WantedColumns find_columns(const RowRequest& request, const std::string& where,
                           const std::vector<std::string>& top_names,
                           const std::function<FoundColumn(const ColumnPath&)>& find) {
  WantedColumns wanted;
  std::vector<std::string> explanations;
  for (const RowRequest::Key& key : request.keys) {
    WantedColumn column{{key.name}, find({key.name})};
    if (!column.found.is_there && !key.path.empty()) column = {key.path, find(key.path)};
    if (column.found.is_list) {
      throw std::runtime_error(where + ": the column \"" + key.name +
                               "\" is a list, which is not read: write its elements as rows, or "
                               "join them to one text each");
    }
    explanations.push_back(column.found.is_there ? "the column is " + column.found.type
                                                 : list_of_names(top_names));
    wanted.columns.push_back(std::move(column));
  }
  for (const ColumnPath& path : request.origins) {
    WantedColumn column{path, find(path), true};
    if (column.found.is_text) wanted.columns.push_back(std::move(column));
  }
  wanted.explanations = std::make_shared<const std::vector<std::string>>(std::move(explanations));
  return wanted;
}

void add_value(RowChunk& chunk, std::string_view value, bool is_origin, const RowRequest& request) {
  if (is_origin) return chunk.add(RowChunk::Kind::kText, value.substr(0, request.max_origin_bytes));
  if (value.size() > request.max_text_bytes) return chunk.add(RowChunk::Kind::kTooLong);
  chunk.add(RowChunk::Kind::kText, value);
}

}  // namespace weft
