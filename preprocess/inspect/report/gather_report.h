// Gathers the data report of a dataset, and writes it to a file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "indexed_dataset/base/process/on_progress.h"
#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "preprocess/inspect/report/data_report.h"

namespace weft {

struct ReportOptions {
  TokenizerFiles tokenizer;  // empty: those of the dataset's manifest
  int num_threads = 1;
  OnProgress on_progress = {};  // sees the tokens
};

// Reads the whole dataset. It takes 16 bytes of memory a document, for its duplicates and after
// that for its origins, and some MB a thread. The result does not depend on the number of threads.
// Throws what DatasetReader throws, and std::runtime_error if the index is damaged.
DataReport gather_report(const std::filesystem::path& prefix, const ReportOptions& options);

// Gathers the report and writes it to `path`, whole or not at all. Throws UsageError if
// `path` ends in neither .html nor .json.
void write_report(const std::filesystem::path& prefix, const std::filesystem::path& path,
                  const ReportOptions& options);
// Throws UsageError if another file than such a report has this name. Its advice ends
// with `other_way` ("give another name").
void check_is_report(const std::filesystem::path& path, const std::string& other_way);
// "html" or "json" by the end of the name; nothing for other names.
std::optional<std::string> report_format(const std::filesystem::path& path);

}  // namespace weft
