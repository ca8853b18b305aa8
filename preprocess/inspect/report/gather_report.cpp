#include "preprocess/inspect/report/gather_report.h"

#include <fmt/chrono.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "indexed_dataset/format/soundness/kth_smallest.h"
#include "preprocess/inspect/report/document_examiner.h"
#include "preprocess/inspect/report/report_labels.h"
#include "preprocess/inspect/text/dataset_text.h"

namespace weft {
namespace {

// The time in UTC; empty where the file system does not tell.
std::string time_written(const std::filesystem::path& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) return "";
  const auto since_epoch = std::chrono::file_clock::to_sys(time).time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch).count();
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

// Fills in what the manifest beside `report.prefix` says. A note tells what could not be found out.
// Returns the token that it says ends documents, or -1.
int64_t read_manifest(DataReport& report) {
  int64_t end_of_document = -1;
  try {
    const auto manifest = read_dataset_manifest(report.prefix);
    if (!manifest) {
      report.notes.push_back(
          "There is no manifest: bad lines and bytes of the corpus are not known.");
      return -1;
    }
    end_of_document = manifest->vocabulary.end_of_document;
    report.manifest_written = time_written(dataset_manifest_path(report.prefix));
    for (const char* name :
         {"json-keys", "tokenizer", "vocab-file", "append-eod", "special", "empty-docs", "where",
          "on-bad-line", "dtype", "origin-key", "shard"}) {
      const std::string value = manifest->option(name);
      if (!value.empty()) report.main_options.emplace_back(name, first_characters(value, 200));
    }
    for (const TokenizerFile& file : manifest->vocabulary.tokenizer.files) {
      if (file.path.empty() || file.sha256.empty()) continue;
      report.tokenizer_files.emplace_back(std::filesystem::path(file.path).filename().string(),
                                          file.sha256);
    }
    if (!manifest->json.contains("input_counts")) return end_of_document;
    const auto& counts = manifest->json["input_counts"];
    report.num_jsonl_bytes = json_integer_at(counts, "jsonl_bytes");
    report.num_bad_lines = json_integer_at(counts, "bad_lines");
    for (const auto& [reason, count] : counts.at("bad_lines_by_reason").items())
      report.bad_lines_by_reason.emplace_back(reason, json_integer(count));
    if (!counts.contains("left_out_by_reason")) return end_of_document;
    for (const auto& [reason, count] : counts.at("left_out_by_reason").items())
      report.left_out_by_reason.emplace_back(reason, json_integer(count));
  } catch (const std::exception& error) {
    report.notes.push_back("The counts in the manifest cannot be understood: " +
                           std::string(error.what()));
  }
  return end_of_document;
}

// Counts the characters at the beginning of a document that equal its first one.
int64_t count_equal_characters(const ReportContext& context, int64_t document_idx) {
  std::vector<int32_t> ids;
  std::string text, first;
  int64_t count = 0;
  bool has_ended = false;
  const int64_t num_tokens = context.documents.num_tokens(document_idx);
  context.documents.for_each_piece(
      document_idx, ids, num_tokens, [&](std::span<const int32_t> piece) {
        if (has_ended) return;
        append_decoded(text, piece, *context.vocabulary);
        if (first.empty()) first = first_columns(text, 1);
        size_t at = 0;
        while (!first.empty() && text.compare(at, first.size(), first) == 0) at += first.size();
        count += static_cast<int64_t>(at / std::max<size_t>(first.size(), 1));
        text.erase(0, at);
        has_ended = text.size() >= first.size();  // else a character may go on in the next piece
      });
  return count;
}

// The beginning of a document's text, or its first ids.
Beginning beginning(const ReportContext& context, int64_t document_idx) {
  constexpr int64_t kShownTokens = 80;
  constexpr size_t kShownBytes = 240;
  const std::vector<int32_t> ids = context.documents.first_tokens(document_idx, kShownTokens);
  const std::string text = context.vocabulary != nullptr ? decode_ids(ids, *context.vocabulary)
                                                         : fmt::format("{} ", fmt::join(ids, " "));
  Beginning beginning{std::string(beginning_of(text, kShownBytes))};
  if (context.vocabulary != nullptr)
    beginning.num_equal = count_equal_characters(context, document_idx);
  return beginning;
}

void describe(std::vector<ReportedDocument>& table, const ReportContext& context) {
  for (ReportedDocument& document : table) {
    document.beginning = beginning(context, document.document_idx);
    if (context.sources != nullptr)
      document.source = context.sources->describe(document.document_idx);
  }
}

std::vector<ReportedInput> largest_inputs(const Findings& findings, const SourceMap& sources) {
  std::vector<ReportedInput> inputs;
  for (const auto& [input_idx, input] : findings.inputs) {
    inputs.push_back(input);
    inputs.back().name = sources.inputs()[input_idx];
  }
  std::stable_sort(inputs.begin(), inputs.end(),
                   [](const auto& a, const auto& b) { return a.num_tokens > b.num_tokens; });
  if (inputs.size() > kNumReported) inputs.resize(kNumReported);
  return inputs;
}

// The token that ends documents: the one that the manifest names, or else the vocabulary's own; -1
// if there is none.
int64_t end_of_document_of(int64_t named, const Vocabulary* vocabulary) {
  if (named >= 0) return named;
  const bool has_own = vocabulary != nullptr && vocabulary->has_end_of_document();
  return has_own ? vocabulary->end_of_document() : -1;
}

}  // namespace

DataReport gather_report(const std::filesystem::path& prefix, const ReportOptions& options) {
  const DatasetReader reader(prefix);
  const Documents documents(reader);
  DataReport report;
  report.prefix = prefix;
  const int64_t named_end_of_document = read_manifest(report);
  const auto vocabulary = find_dataset_vocabulary(prefix, options.tokenizer);
  if (!vocabulary) {
    report.notes.push_back(
        "The dataset's vocabulary was not found: documents are shown as ids, repeated characters "
        "are not counted, and documents are compared with the token that ends them.");
  }
  const auto sources = open_source_map_of(reader);
  if (!sources) {
    report.notes.push_back("There is no source map (" + sources_path(prefix).filename().string() +
                           "): from which files documents came is not known.");
  }
  if (sources && !sources->has_origins()) {
    report.notes.push_back(
        "Domains and sources are not known: the dataset was made without them (weft-data "
        "preprocess --origin-key auto keeps them).");
  }
  std::optional<TokenTexts> texts;
  if (vocabulary) texts.emplace(*vocabulary);
  std::optional<DocumentGroups> equal_texts(documents.count());
  const ReportContext context{documents,
                              vocabulary.get(),
                              texts ? &*texts : nullptr,
                              sources ? &*sources : nullptr,
                              end_of_document_of(named_end_of_document, vocabulary.get()),
                              *equal_texts};
  const auto see_tokens = [&](int64_t num_tokens) {
    if (options.on_progress) options.on_progress("examined", num_tokens, reader.num_tokens());
  };
  Findings all = examine_documents(context, options.num_threads, see_tokens);

  report.num_documents = documents.count();
  report.num_empty_documents = all.num_empty;
  if (context.end_of_document >= 0) {
    report.num_without_end = all.num_without_end;
    report.num_with_end_inside = all.num_with_end_inside;
  }
  report.num_tokens = reader.num_tokens();
  report.num_repetitive_documents = all.num_repetitive;
  report.num_repetitive_tokens = all.num_repetitive_tokens;
  report.length_histogram = all.length_histogram;
  report.tokens_by_length = all.tokens_by_length;
  if (vocabulary) report.num_text_bytes = all.num_text_bytes;
  report.longest = all.longest.take();
  report.most_repeated_characters = all.repeated_characters.take();
  report.most_repeated_tokens = all.repeated_tokens.take();
  const auto num_tokens_of = [&](int64_t i) { return documents.num_tokens(i); };
  if (!report.longest.empty()) {
    const int64_t num_with_tokens = documents.count() - all.num_empty;
    const auto kth_length = [&](int64_t k) {  // of documents that are not empty
      return kth_smallest(documents.count(), all.num_empty + k, num_tokens_of);
    };
    report.min_tokens = kth_length(0);
    report.median_tokens = kth_length(num_with_tokens / 2);
    report.p90_tokens = kth_length((num_with_tokens * 9 + 9) / 10 - 1);
    report.p99_tokens = kth_length((num_with_tokens * 99 + 99) / 100 - 1);
    report.max_tokens = report.longest[0].num_tokens;
  }
  for (auto* table :
       {&report.longest, &report.most_repeated_characters, &report.most_repeated_tokens})
    describe(*table, context);
  report.duplicates =
      find_duplicates(*equal_texts, options.num_threads, kNumReported, num_tokens_of);
  equal_texts.reset();  // frees memory: counting origins takes as much
  for (const DuplicateGroup& group : report.duplicates.largest)
    report.duplicate_beginnings.push_back(beginning(context, group.first_document));
  report.has_sources = sources.has_value();
  if (sources) {
    report.inputs = largest_inputs(all, *sources);
    report.num_inputs = std::ssize(all.inputs);
    if (sources->has_origins()) {
      report.origins =
          count_origins(*sources, options.num_threads, kNumReportedOrigins, num_tokens_of);
    }
  }
  return report;
}

std::optional<std::string> report_format(const std::filesystem::path& path) {
  if (path.extension() == ".html") return "html";
  if (path.extension() == ".json") return "json";
  return std::nullopt;
}

void check_is_report(const std::filesystem::path& path, const std::string& other_way) {
  if (!std::filesystem::exists(path)) return;
  if (std::filesystem::is_regular_file(path)) {
    std::string begin(8192, '\0');
    std::ifstream(path, std::ios::binary).read(begin.data(), std::ssize(begin));
    constexpr char kPage[] =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        "style-src 'sha256-";
    const std::string program = kReportProgram;
    if (begin.starts_with(kPage) && begin.find("<meta name=\"generator\" content=\"" + program +
                                               "\">\n<title>") != std::string::npos)
      return;
    if (begin.starts_with("{\n  \"program\": \"" + program + "\",\n")) return;
  }
  throw UsageError("'" + path.string() +
                   "' is there, and is no report of weft-data; move it away, or " + other_way);
}

void write_report(const std::filesystem::path& prefix, const std::filesystem::path& path,
                  const ReportOptions& options) {
  const auto format = report_format(path);
  if (!format) throw UsageError("'" + path.string() + "': a report's name ends in .html or .json");
  const DataReport report = gather_report(prefix, options);
  write_file_atomically(path, *format == "html" ? report_html(report) : report_json(report));
}

}  // namespace weft
