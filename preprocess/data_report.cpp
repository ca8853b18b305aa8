#include "preprocess/data_report.h"

#define XXH_INLINE_ALL
#include <fmt/chrono.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <ctime>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "indexed_dataset/file_io.h"
#include "indexed_dataset/parallel_for.h"
#include "indexed_dataset/reader.h"
#include "preprocess/dataset_manifest.h"
#include "preprocess/dataset_text.h"
#include "preprocess/document_facts.h"
#include "preprocess/parse_json.h"
#include "preprocess/report_words.h"
#include "preprocess/source_map.h"

namespace weft {
namespace {

// Tokens at a time: what a thread holds, with their text, is below 2 MB.
constexpr int64_t kPieceTokens = 1 << 16;
// Tokens of a task: a few milliseconds.
constexpr int64_t kTaskTokens = 1 << 20;

// The documents of a dataset as ranges of sequences; in old files without bounds a sequence is one.
class Documents {
 public:
  explicit Documents(const DatasetReader& reader)
      : reader_(reader), has_bounds_(reader.num_documents() > 0 || reader.num_sequences() == 0) {}

  int64_t count() const { return has_bounds_ ? reader_.num_documents() : reader_.num_sequences(); }
  // Tokens of document i. Throws std::runtime_error where the index is damaged.
  int64_t num_tokens(int64_t i) const {
    int64_t sum = 0;
    const auto [first, last] = sequences(i);
    for (int64_t k = first; k < last; ++k) {
      if (reader_.length(k) < 0) throw_damaged("length of sequence " + std::to_string(k));
      sum += reader_.length(k);
    }
    return sum;
  }
  // -1 for an empty document.
  int32_t last_token(int64_t i) const {
    const auto [first, last] = sequences(i);
    int32_t id = -1;
    for (int64_t k = last; k-- > first && id < 0;) {
      if (reader_.length(k) > 0) reader_.copy_tokens(k, reader_.length(k) - 1, 1, &id);
    }
    return id;
  }
  // Calls use(ids) for the document's first `max_tokens` tokens, in pieces.
  template <typename Use>
  void for_each_piece(int64_t i, std::vector<int32_t>& ids, int64_t max_tokens,
                      const Use& use) const {
    const auto [first, last] = sequences(i);
    for (int64_t k = first; k < last; ++k) {
      for (int64_t at = 0; at < reader_.length(k) && max_tokens > 0;) {
        const int64_t count = std::min({kPieceTokens, reader_.length(k) - at, max_tokens});
        ids.resize(static_cast<size_t>(count));
        reader_.copy_tokens(k, at, count, ids.data());
        use(std::span<const int32_t>(ids));
        at += count;
        max_tokens -= count;
      }
    }
  }

 private:
  std::pair<int64_t, int64_t> sequences(int64_t i) const {
    if (!has_bounds_) return {i, i + 1};
    const int64_t first = reader_.document_bound(i), last = reader_.document_bound(i + 1);
    if (first < 0 || last < first || last > reader_.num_sequences())
      throw_damaged("document bound " + std::to_string(i + 1));
    return {first, last};
  }
  [[noreturn]] void throw_damaged(const std::string& what) const {
    throw std::runtime_error(reader_.prefix().string() + ".idx: " + what +
                             " is impossible: the index is damaged (weft-data verify)");
  }

  const DatasetReader& reader_;
  bool has_bounds_;
};

// The best few by score, equal ones by document: the same whatever the order of arrival.
class TopList {
 public:
  void add(double score, const ReportedDocument& document) {
    if (entries_.size() == kNumReported && !(Entry{score, document} < entries_.back())) return;
    entries_.push_back({score, document});
    std::sort(entries_.begin(), entries_.end());
    if (entries_.size() > kNumReported) entries_.pop_back();
  }
  void add_all(const TopList& other) {
    for (const Entry& entry : other.entries_) add(entry.score, entry.document);
  }
  std::vector<ReportedDocument> documents() const {
    std::vector<ReportedDocument> result;
    for (const Entry& entry : entries_) result.push_back(entry.document);
    return result;
  }

 private:
  struct Entry {
    double score;
    ReportedDocument document;
    bool operator<(const Entry& other) const {
      if (score != other.score) return score > other.score;
      return document.document_idx < other.document.document_idx;
    }
  };
  std::vector<Entry> entries_;
};

// What one task, and in the end all of them, found.
struct Findings {
  std::array<int64_t, 64> length_histogram{};
  int64_t num_empty = 0, num_text_bytes = 0, num_repetitive = 0;
  TopList longest, repeated_characters, repeated_tokens;
  std::map<uint32_t, ReportedInput> inputs;

  void add(const Findings& other) {
    for (size_t k = 0; k < length_histogram.size(); ++k)
      length_histogram[k] += other.length_histogram[k];
    num_empty += other.num_empty;
    num_text_bytes += other.num_text_bytes;
    num_repetitive += other.num_repetitive;
    longest.add_all(other.longest);
    repeated_characters.add_all(other.repeated_characters);
    repeated_tokens.add_all(other.repeated_tokens);
    for (const auto& [input_idx, input] : other.inputs) {
      inputs[input_idx].num_documents += input.num_documents;
      inputs[input_idx].num_tokens += input.num_tokens;
    }
  }
};

// Everything that looking at a document needs, shared by all threads.
struct Context {
  const DatasetReader& reader;
  Documents documents;
  const Vocabulary* vocabulary;  // null: not found, as `texts`
  const TokenTexts* texts;
  const SourceMap* sources;  // null: not there
  int64_t end_of_document;   // -1: none
  DocumentGroups& equal_texts;
};

// Looks at one document after another.
class DocumentLook {
 public:
  DocumentLook(const Context& context, Findings& findings)
      : context_(context), findings_(findings) {}

  void at(int64_t document_idx) {
    const int64_t num_tokens = context_.documents.num_tokens(document_idx);
    ++findings_
          .length_histogram[static_cast<size_t>(std::bit_width(static_cast<uint64_t>(num_tokens)))];
    if (context_.sources != nullptr) count_input(document_idx, num_tokens);
    if (num_tokens == 0) {
      ++findings_.num_empty;
      return;
    }
    const int64_t num_own_tokens = num_tokens - (ends_with_eod(document_idx) ? 1 : 0);
    RepeatedCharacters characters;
    runs_.begin(static_cast<uint64_t>(document_idx));
    XXH3_state_t hash;
    XXH3_128bits_reset(&hash);
    context_.documents.for_each_piece(
        document_idx, ids_, num_own_tokens, [&](std::span<const int32_t> ids) {
          XXH3_128bits_update(&hash, ids.data(), ids.size_bytes());
          runs_.add(ids);
          if (context_.texts != nullptr)
            findings_.num_text_bytes += context_.texts->add_to(characters, ids);
        });
    characters.end();
    if (num_own_tokens > 0) {
      const XXH128_hash_t digest = XXH3_128bits_digest(&hash);
      context_.equal_texts.set(document_idx, digest.high64, digest.low64);
    }
    rate(document_idx, num_tokens, num_own_tokens, characters);
  }

 private:
  bool ends_with_eod(int64_t document_idx) const {
    if (context_.end_of_document < 0) return false;
    return context_.documents.last_token(document_idx) == context_.end_of_document;
  }

  void count_input(int64_t document_idx, int64_t num_tokens) {
    const uint32_t input_idx = context_.sources->entry(document_idx).input_idx;
    if (input_ == nullptr || input_idx != input_idx_) {
      input_ = &findings_.inputs[input_idx];
      input_idx_ = input_idx;
    }
    ++input_->num_documents;
    input_->num_tokens += num_tokens;
  }

  void rate(int64_t document_idx, int64_t num_tokens, int64_t num_own_tokens,
            const RepeatedCharacters& characters) {
    ReportedDocument document{document_idx, num_tokens, 0, "", ""};
    bool is_repetitive = false;
    findings_.longest.add(static_cast<double>(num_tokens), document);
    const auto add = [&](TopList& list, int64_t num_repeated, int64_t count,
                         double suspicious_ratio) {
      document.ratio = static_cast<double>(num_repeated) / static_cast<double>(count);
      is_repetitive |= document.ratio >= suspicious_ratio;
      if (num_repeated > 0) list.add(document.ratio, document);
    };
    if (characters.num_characters() >= kMinRatedCharacters)
      add(findings_.repeated_characters, characters.num_repeated(), characters.num_characters(),
          kRepetitiveCharacters);
    if (num_own_tokens >= kMinRatedTokens)
      add(findings_.repeated_tokens, runs_.num_repeated(), num_own_tokens, kRepetitiveTokens);
    findings_.num_repetitive += is_repetitive;
  }

  const Context& context_;
  Findings& findings_;
  RepeatedRuns runs_;
  std::vector<int32_t> ids_;
  ReportedInput* input_ = nullptr;
  uint32_t input_idx_ = 0;
};

// Documents [begin, end) of about kTaskTokens tokens.
std::vector<std::pair<int64_t, int64_t>> make_tasks(const Documents& documents) {
  std::vector<std::pair<int64_t, int64_t>> tasks;
  int64_t begin = 0, num_tokens = 0;
  for (int64_t i = 0; i < documents.count(); ++i) {
    // A document without tokens costs a little, too.
    num_tokens += documents.num_tokens(i) + 16;
    if (num_tokens < kTaskTokens && i + 1 < documents.count()) continue;
    tasks.emplace_back(begin, i + 1);
    begin = i + 1;
    num_tokens = 0;
  }
  return tasks;
}

// The k-th smallest length of documents that are not empty: its entry of the histogram, then
// bisection of its value within that.
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

// In UTC; empty where the file system does not tell.
std::string time_written(const std::filesystem::path& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) return "";
  const auto since_epoch = std::chrono::file_clock::to_sys(time).time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch).count();
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

std::vector<std::pair<std::string, std::string>> main_options(
    const nlohmann::ordered_json& manifest) {
  std::vector<std::pair<std::string, std::string>> found;
  if (!manifest.is_object() || !manifest.contains("options")) return found;
  const auto& options = manifest["options"];
  for (const char* name : {"json-keys", "vocab-file", "append-eod", "special", "empty-docs",
                           "on-bad-line", "dtype", "origin-key", "shard", "partitions"}) {
    if (!options.is_object() || !options.contains(name) || !options[name].is_string()) continue;
    const auto value = options[name].get<std::string>();
    if (!value.empty()) found.emplace_back(name, first_characters(value, 200));
  }
  return found;
}

void read_manifest(const std::filesystem::path& prefix, DataReport& report) {
  const std::filesystem::path path = manifest_path(prefix);
  if (!std::filesystem::exists(path)) {
    report.notes.push_back(
        "There is no manifest: bad lines and bytes of the corpus are not known.");
    return;
  }
  try {
    const auto manifest = parse_json<nlohmann::ordered_json>(read_file(path));
    report.manifest_written = time_written(path);
    report.main_options = main_options(manifest);
    if (!manifest.contains("input_counts")) return;
    const auto& counts = manifest["input_counts"];
    report.num_jsonl_bytes = counts.at("jsonl_bytes").get<int64_t>();
    report.num_bad_lines = counts.at("bad_lines").get<int64_t>();
    for (const auto& [reason, count] : counts.at("bad_lines_by_reason").items())
      report.bad_lines_by_reason.emplace_back(reason, count.get<int64_t>());
  } catch (const std::exception& error) {
    report.notes.push_back("The counts in the manifest cannot be understood: " +
                           std::string(error.what()));
  }
}

// Adds to the documents of a table what people recognise them by.
class Describer {
 public:
  explicit Describer(const Context& context) : context_(context) {}

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
      size_t end = kShownBytes;  // not within a character
      while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
      text.resize(end);
    }
    return text;
  }

 private:
  const Context& context_;
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

// The vocabulary's <|endoftext|>; -1 without one.
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
  read_manifest(prefix, report);
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
  const Context context{reader,
                        documents,
                        vocabulary.get(),
                        texts ? &*texts : nullptr,
                        sources ? &*sources : nullptr,
                        end_of_document_of(vocabulary.get()),
                        *equal_texts};
  Findings all;
  std::mutex mutex;
  const auto tasks = make_tasks(documents);
  parallel_for(std::ssize(tasks), options.num_threads, [&](int64_t i) {
    Findings findings;
    DocumentLook look(context, findings);
    const auto [begin, end] = tasks[static_cast<size_t>(i)];
    for (int64_t k = begin; k < end; ++k) look.at(k);
    const std::lock_guard lock(mutex);
    all.add(findings);
  });

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
  equal_texts.reset();  // origins take as much
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
