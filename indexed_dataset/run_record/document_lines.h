// Reads which documents of a run lines name, in the words of weft-data inspect or in shorter ones
// (unseen_documents.h has the list).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "indexed_dataset/run_record/named_documents.h"

namespace weft {

class DocumentLines {
 public:
  // `documents` gets what the lines name, and must outlive this.
  explicit DocumentLines(NamedDocuments& documents) : documents_(documents) {}

  // Takes the next line. What a command of inspect prints in several lines is understood together: the dataset of a
  // sample stands above its documents, and the source of a document below it. Throws as NamedDocuments, and
  // std::invalid_argument for a line that is neither blank nor a comment nor of inspect and names no document, and for a
  // document whose line of the corpus is another one than is said: then the numbers are of another dataset.
  void add(std::string_view line);

 private:
  bool add_printed(std::string_view line);
  bool add_entries(std::string_view entries);
  NamedDocument add_entry(std::string_view& rest, int64_t document_idx);
  void drop_source_and_text(std::string_view& rest, const NamedDocument& document);
  bool repeats_source(std::string_view line, const std::optional<NamedDocument>& before);
  [[noreturn]] void refuse_number(const NamedDocument& document, const std::string& source) const;
  void add_json(const std::string& line);
  void add_object(const nlohmann::json& object, const nlohmann::json& dataset);

  NamedDocuments& documents_;
  std::optional<int64_t> dataset_of_sample_;      // of the sample whose documents come next
  std::optional<NamedDocument> document_before_;  // the only one of the line before
};

}  // namespace weft
