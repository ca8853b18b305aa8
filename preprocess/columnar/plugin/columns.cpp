#include "preprocess/columnar/plugin/columns.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace weft {
namespace {

using Kind = FoundColumn::Kind;
using Use = WantedColumn::Use;

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

// Why a column that is named cannot be read; "" if it can.
std::string problem_of(const FoundColumn& found, Use use,
                       const std::vector<std::string>& top_names) {
  if (found.kind == Kind::kNone) return "is not there; " + list_of_names(top_names);
  if (found.kind == Kind::kNull || found.kind == Kind::kText) return "";
  if (use == Use::kValue) {
    return found.has_values() ? ""
                              : "is " + found.type +
                                    ", which --where does not compare: it knows "
                                    "texts, numbers, true and false";
  }
  if (found.kind == Kind::kList)
    return "is a list, which is not read: write its elements as rows, or join them to one text each";
  return "is " + found.type + ", and no text: --json-keys names the column that texts are in";
}

}  // namespace

std::vector<WantedColumn> find_columns(const RowRequest& request, const std::string& where,
                                       const std::vector<std::string>& top_names,
                                       const std::function<FoundColumn(const ColumnPath&)>& find) {
  std::vector<WantedColumn> columns;
  const auto add = [&](const RowRequest::Key& key, Use use) {
    WantedColumn column{use, {key.name}, find({key.name})};
    if (column.found.kind == Kind::kNone && !key.path.empty())
      column = {use, key.path, find(key.path)};
    const std::string problem = problem_of(column.found, use, top_names);
    if (!problem.empty())
      throw std::runtime_error(where + ": the column \"" + key.name + "\" " + problem);
    columns.push_back(std::move(column));
  };
  for (const RowRequest::Key& key : request.keys) add(key, Use::kKey);
  for (const RowRequest::Key& key : request.values) add(key, Use::kValue);
  for (const ColumnPath& path : request.origins) {
    WantedColumn column{Use::kOrigin, path, find(path)};
    if (column.found.kind == Kind::kText) columns.push_back(std::move(column));
  }
  return columns;
}

void add_text(RowChunk& chunk, std::string_view text, WantedColumn::Use use,
              const RowRequest& request) {
  if (use == Use::kOrigin) text = text.substr(0, request.max_origin_bytes);
  if (use == Use::kKey && text.size() > request.max_text_bytes)
    return chunk.add(RowChunk::Kind::kTooLong);
  chunk.add(RowChunk::Kind::kText, text);
}

}  // namespace weft
