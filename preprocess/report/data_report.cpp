#include "preprocess/report/data_report.h"

#include <algorithm>
#include <stdexcept>

#include "indexed_dataset/storage/whole_files.h"
#include "preprocess/datasets/dataset_text.h"
#include "preprocess/report/document_excerpt.h"
#include "preprocess/report/report_manifest.h"

namespace weft {
namespace {

// Finds the k-th smallest length of documents that are not empty: first its entry of the histogram,
// then its value by bisection within that.
int64_t kth_length(const Documents& documents, const std::array<int64_t, 64>& histogram,
                   int64_t k) {
  size_t entry = 1;
  for (int64_t before = 0; entry + 1 < histogram.size(); before += histogram[entry++]) {
    if (before + histogram[entry] > k) break;
  }
  int64_t low = int64_t{1} << (entry - 1), high = 2 * low - 1;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    int64_t num_up_to = 0;
    for (int64_t i = 0; i < documents.count(); ++i) {
      const int64_t num_tokens = documents.num_tokens(i);
      num_up_to += num_tokens > 0 && num_tokens <= middle;
    }
    if (num_up_to > k) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Adds to the documents of a table what people recognise them by: their source and their beginning.
class Describer {
 public:
  explicit Describer(const ReportContext& context) : context_(context) {}

  void describe(std::vector<ReportedDocument>& table) const {
    for (ReportedDocument& document : table) {
      document.beginning = beginning(document.document_idx);
      if (context_.sources == nullptr) continue;
      const SourceEntry entry = context_.sources->entry(document.document_idx);
      document.source = context_.sources->inputs()[entry.input_idx] + ", byte " +
                        std::to_string(entry.offset_bytes);
      if (!entry.origin.is_empty())
        document.source += " (from " + std::string(entry.origin.view()) + ")";
    }
  }
  std::string beginning(int64_t document_idx) const {
    constexpr int64_t kShownTokens = 80;
    constexpr size_t kShownBytes = 240;
    std::vector<int32_t> ids;
    std::string text;
    context_.documents.for_each_piece(
        document_idx, ids, kShownTokens, [&](std::span<const int32_t> piece) {
          const std::vector<int32_t> shown(piece.begin(), piece.end());
          if (context_.vocabulary != nullptr) {
            text += decode_ids(shown, *context_.vocabulary);
          } else {
            for (const int32_t id : shown) text += std::to_string(id) + " ";
          }
        });
    if (text.size() > kShownBytes) {
      size_t end = kShownBytes;  // moved back so that it cuts no character
      while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
      text.resize(end);
    }
    return text;
  }

 private:
  const ReportContext& context_;
};

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

// The id of the vocabulary's <|endoftext|>; -1 if it has none.
int64_t end_of_document_of(const Vocabulary* vocabulary) {
  try {
    return vocabulary == nullptr ? -1 : vocabulary->end_of_document();
  } catch (const std::runtime_error&) {
    return -1;
  }
}

}  // namespace

DataReport gather_report(const std::filesystem::path& prefix, const ReportOptions& options) {
  const DatasetReader reader(prefix);
  const Documents documents(reader);
  DataReport report;
  report.prefix = prefix;
  read_manifest(report);
  const auto vocabulary = find_dataset_vocabulary(prefix, options.vocab_file, options.merge_file);
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
  const ReportContext context{reader,
                              documents,
                              vocabulary.get(),
                              texts ? &*texts : nullptr,
                              sources ? &*sources : nullptr,
                              end_of_document_of(vocabulary.get()),
                              *equal_texts};
  const Findings all = examine_documents(context, options.num_threads);

  report.num_documents = documents.count();
  report.num_empty_documents = all.num_empty;
  report.num_tokens = reader.num_tokens();
  report.num_repetitive_documents = all.num_repetitive;
  report.length_histogram = all.length_histogram;
  const int64_t num_with_tokens = documents.count() - all.num_empty;
  if (num_with_tokens > 0) {
    report.min_tokens = kth_length(documents, all.length_histogram, 0);
    report.median_tokens = kth_length(documents, all.length_histogram, num_with_tokens / 2);
    report.max_tokens = all.longest.documents()[0].num_tokens;
  }
  if (vocabulary) report.num_text_bytes = all.num_text_bytes;
  report.longest = all.longest.documents();
  report.most_repeated_characters = all.repeated_characters.documents();
  report.most_repeated_tokens = all.repeated_tokens.documents();
  const Describer describer(context);
  for (auto* table :
       {&report.longest, &report.most_repeated_characters, &report.most_repeated_tokens})
    describer.describe(*table);
  const auto num_tokens_of = [&](int64_t i) { return documents.num_tokens(i); };
  report.duplicates =
      find_duplicates(*equal_texts, options.num_threads, kNumReported, num_tokens_of);
  equal_texts.reset();  // frees memory: counting origins takes as much
  for (const DuplicateGroup& group : report.duplicates.largest)
    report.duplicate_beginnings.push_back(describer.beginning(group.first_document));
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

void write_report(const std::filesystem::path& prefix, const std::filesystem::path& path,
                  const ReportOptions& options) {
  const auto format = report_format(path);
  if (!format)
    throw std::invalid_argument("'" + path.string() + "': a report's name ends in .html or .json");
  const DataReport report = gather_report(prefix, options);
  write_file_atomically(path, *format == "html" ? report_html(report) : report_json(report));
}

}  // namespace weft
