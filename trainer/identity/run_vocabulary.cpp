#include "trainer/identity/run_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/format/pair/reader.h"
#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "trainer/identity/json_file.h"

namespace weft {

namespace {

namespace fs = std::filesystem;

// Returns what the dataset's manifest says of the vocabulary; num_tokens is 0 where it says
// nothing.
RunVocabulary vocabulary_of_dataset(const std::string& prefix) {
  const DatasetVocabulary vocabulary = read_dataset_vocabulary(prefix);
  if (vocabulary.size == 0) return {};
  RunVocabulary found{vocabulary.size, dataset_manifest_path(prefix).string()};
  if (vocabulary.tokenizer.has_checksums()) found.tokenizer = vocabulary.tokenizer;
  found.end_of_document = vocabulary.end_of_document;
  if (found.end_of_document >= 0) found.end_of_document_source = "that of " + found.source;
  return found;
}

constexpr const char* kFileFlags[] = {"--vocab-file", "--merge-file"};

// Two vocabularies may have equally many entries and still give other ids to the same text.
void check_is_the_datasets(const char* flag, const TokenizerFile& file, const std::string& wanted,
                           const std::string& dataset) {
  if (wanted.empty() || file.sha256 == wanted) return;
  throw UsageError(
      fmt::format("{} {} is not the file that the dataset {} was made with: its SHA-256 is {}, the "
                  "dataset's manifest names {}; leave the flag out, or give that file",
                  flag, file.path, dataset, file.sha256, wanted));
}

void check_is_large_enough(int64_t given, int64_t needed, const std::string& needed_by) {
  if (given >= needed) return;
  throw UsageError(
      fmt::format("--vocab-size {} is smaller than the vocabulary of {} tokens in {}: the dataset "
                  "may hold every id below {}",
                  given, needed, needed_by, needed));
}

nlohmann::json read_vocabulary_file(const fs::path& vocab_file) {
  nlohmann::json json = read_json_file(vocab_file);
  if (!json.is_object() || json.empty()) {
    throw std::runtime_error(vocab_file.string() +
                             ": not a vocabulary: expected a JSON object of token: id");
  }
  return json;
}

// Takes the tokens of vocab.json and, unless the dataset's manifest has named it, the one that ends
// documents.
void take_tokens(RunVocabulary& vocabulary, const fs::path& vocab_file) {
  const nlohmann::json json = read_vocabulary_file(vocab_file);
  vocabulary.num_tokens = std::ssize(json);
  vocabulary.source = vocab_file.string();
  const auto end = json.find(kGpt2EndOfDocument);
  if (vocabulary.end_of_document >= 0 || end == json.end() || !end->is_number_unsigned()) return;
  vocabulary.end_of_document = static_cast<int64_t>(
      std::min<uint64_t>(end->get<uint64_t>(), std::numeric_limits<int64_t>::max()));
  vocabulary.end_of_document_source =
      fmt::format("{} of {}", kGpt2EndOfDocument, vocabulary.source);
}

void check_end_of_document(const RunVocabulary& vocabulary) {
  if (vocabulary.end_of_document < vocabulary.num_tokens) return;
  throw UsageError(fmt::format(
      "the end-of-document token {}, {}, is outside the vocabulary of {} tokens from {}: give the right "
      "--eod-token-id, or the dataset's own --vocab-file or --vocab-size",
      vocabulary.end_of_document, vocabulary.end_of_document_source, vocabulary.num_tokens,
      vocabulary.source));
}

// Returns vocab.json and, if it is there, merges.txt of a folder or of the command line.
TokenizerFiles files_of(const fs::path& vocab_file, const fs::path& merge_file) {
  return with_checksums(gpt2_files(vocab_file, fs::exists(merge_file) ? merge_file : fs::path()));
}

// Takes from the dataset's files what is not given. Throws if another file than the dataset's is.
TokenizerFiles given_files(const Config& config, const TokenizerFiles& of_dataset,
                           const std::string& dataset) {
  TokenizerFiles given = files_of(config.vocab_file, config.merge_file);
  for (size_t i = 0; i < of_dataset.files.size() && i < given.files.size(); ++i) {
    TokenizerFile& file = given.files[i];
    const TokenizerFile& wanted = of_dataset.files[i];
    if (!file.sha256.empty()) check_is_the_datasets(kFileFlags[i], file, wanted.sha256, dataset);
    if (file.sha256.empty()) file = wanted;
  }
  return given;
}

// Returns what the datasets' manifests say. One id must mean one text in all datasets of a blend.
RunVocabulary vocabulary_of_datasets(const std::vector<std::string>& prefixes) {
  RunVocabulary common;
  for (const std::string& prefix : prefixes) {
    const RunVocabulary found = vocabulary_of_dataset(prefix);
    if (found.num_tokens <= 0) continue;
    if (common.num_tokens <= 0) {
      common = found;
      continue;
    }
    const bool ends_differ = found.end_of_document >= 0 && common.end_of_document >= 0 &&
                             found.end_of_document != common.end_of_document;
    if (found.num_tokens != common.num_tokens || ends_differ ||
        are_different(found.tokenizer, common.tokenizer)) {
      throw UsageError(fmt::format(
          "{} and {} name different vocabularies ({} and {} tokens): datasets of one run must be "
          "made with the same tokenizer",
          common.source, found.source, common.num_tokens, found.num_tokens));
    }
  }
  return common;
}

// Returns the vocabulary of --vocab-file and --merge-file.
RunVocabulary given_vocabulary(const Config& config, const RunVocabulary& manifest,
                               const std::string& dataset) {
  RunVocabulary given;
  given.end_of_document = manifest.end_of_document;
  given.end_of_document_source = manifest.end_of_document_source;
  take_tokens(given, config.vocab_file);
  given.tokenizer = given_files(config, manifest.tokenizer, dataset);
  return given;
}

// The documents of a dataset that were looked at, and those of them that end with a token.
struct SeenEnds {
  int64_t num_documents = 0, num_ended = 0;
};

// Looks at `most` documents that are spread evenly: the parts of a merged dataset differ. Empty
// documents have no end, and a damaged index is told by those that read samples.
SeenEnds look_at_ends(const DatasetReader& reader, int64_t id, int64_t most) {
  // Files without bounds hold a document in each sequence.
  const bool has_bounds = reader.num_documents() > 0;
  const int64_t num_documents = has_bounds ? reader.num_documents() : reader.num_sequences();
  const int64_t num_seen = std::min(num_documents, most);
  SeenEnds seen;
  for (int64_t i = 0; i < num_seen; ++i) {
    const int64_t document = num_documents / num_seen * i + num_documents % num_seen * i / num_seen;
    const int64_t last = has_bounds ? reader.document_bound(document + 1) - 1 : document;
    if (last < 0 || last >= reader.num_sequences() || reader.length(last) < 1) continue;
    int32_t token = -1;
    reader.copy_tokens(last, reader.length(last) - 1, 1, &token);
    seen.num_documents += 1;
    if (token == id) seen.num_ended += 1;
  }
  return seen;
}

std::string name_of_few(const std::vector<std::string>& names) {
  constexpr size_t kMostNamed = 8;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMostNamed; ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > kMostNamed ? fmt::format("{} and {} more", text, names.size() - kMostNamed)
                                   : text;
}

}  // namespace

int64_t count_vocabulary(const fs::path& vocab_file) {
  return std::ssize(read_vocabulary_file(vocab_file));
}

std::vector<std::string> dataset_prefixes(const Config& config) {
  if (config.plans_without_data()) return {};
  return resolve_data_paths(config.paths).prefixes();
}

fs::path vocabulary_folder() {
  if (const char* given = std::getenv("WEFT_GPT2_DIR"); given && *given) return given;
  const char* home = std::getenv("HOME");
  return fs::path(home && *home ? home : "/") / ".cache/weft/gpt2";
}

RunVocabulary find_run_vocabulary(const Config& config) {
  const std::vector<std::string> prefixes = dataset_prefixes(config);
  RunVocabulary vocabulary = vocabulary_of_datasets(prefixes);
  if (!config.vocab_file.empty()) {
    vocabulary = given_vocabulary(config, vocabulary, prefixes.empty() ? "" : prefixes.front());
  } else if (vocabulary.num_tokens <= 0 && !config.vocab_size) {
    const fs::path path = vocabulary_folder() / "vocab.json";
    if (!fs::exists(path)) {
      const std::string manifest =
          prefixes.empty()
              ? "no dataset"
              : "no " + dataset_manifest_path(prefixes.front()).string() + " beside the dataset";
      throw UsageError(
          "the size of the vocabulary is not known: no --vocab-size, no --vocab-file, " + manifest +
          ", no " + path.string() +
          " ($WEFT_GPT2_DIR, else ~/.cache/weft/gpt2); for GPT-2 give --vocab-size 50257");
    }
    take_tokens(vocabulary, path);
    vocabulary.tokenizer = files_of(path, vocabulary_folder() / "merges.txt");
  }
  if (config.vocab_size && vocabulary.num_tokens <= 0) {
    vocabulary.num_tokens = *config.vocab_size;
    vocabulary.source = "--vocab-size";
  }
  if (vocabulary.end_of_document < 0) {
    vocabulary.end_of_document = vocabulary.num_tokens - 1;
    vocabulary.end_of_document_source = "the last one of " + vocabulary.source;
  }
  if (config.vocab_size) {
    check_is_large_enough(*config.vocab_size, vocabulary.num_tokens, vocabulary.source);
    vocabulary.num_tokens = *config.vocab_size;
    vocabulary.source = "--vocab-size";
  }
  if (config.eod_token_id) {
    vocabulary.end_of_document = *config.eod_token_id;
    vocabulary.end_of_document_source = "that of --eod-token-id";
  }
  if (config.has_null_tokenizer() && config.vocab_size) {
    // [Megatron-LM core/tokenizers/text/libraries/null_tokenizer.py]
    if (!config.eod_token_id) {
      vocabulary.end_of_document = *config.vocab_size;
      vocabulary.end_of_document_source = "that of NullTokenizer";
    }
    vocabulary.num_tokens = *config.vocab_size + 1;
    vocabulary.source = "--vocab-size and NullTokenizer's one more";
  }
  check_end_of_document(vocabulary);
  return vocabulary;
}

std::string check_document_ends(const Config& config, const RunVocabulary& vocabulary) {
  if (config.plans_without_data()) return "";
  if (!config.looks_for_document_ends() && !config.eod_token_id) return "";
  const char* flag = config.eod_mask_loss          ? "--eod-mask-loss"
                     : config.reset_position_ids   ? "--reset-position-ids"
                     : config.reset_attention_mask ? "--reset-attention-mask"
                                                   : nullptr;
  const SplitBlends blends = resolve_data_paths(config.paths);
  const std::vector<std::string> prefixes = blends.prefixes();
  // Training alone decides whether the flags do anything, if it has datasets of its own.
  std::set<std::string> trained;
  for (const Blend& blend : blends.of(Split::kTrain))
    trained.insert(blend.prefixes.begin(), blend.prefixes.end());
  const int64_t most =
      std::clamp<int64_t>(8192 / std::max<int64_t>(std::ssize(prefixes), 1), 16, 128);
  std::vector<std::string> without, in_part;
  bool any_in_training = false;
  for (const std::string& prefix : prefixes) {
    const SeenEnds seen = look_at_ends(DatasetReader(prefix), vocabulary.end_of_document, most);
    // A dataset without documents tells nothing.
    const bool has_none = seen.num_documents > 0 && seen.num_ended == 0;
    if (has_none) without.push_back(prefix);
    if (!has_none && (trained.empty() || trained.contains(prefix))) any_in_training = true;
    if (!has_none && seen.num_ended < seen.num_documents)
      in_part.push_back(fmt::format("{} ({} of {})", prefix, seen.num_ended, seen.num_documents));
  }
  if (without.empty() && in_part.empty()) return "";
  std::string what;
  if (!without.empty()) what = fmt::format("no document of {} ends with it", name_of_few(without));
  if (!in_part.empty()) {
    what += fmt::format("{}not all documents that were looked at end with it in {}",
                        what.empty() ? "" : ", and ", name_of_few(in_part));
  }
  const std::string id =
      fmt::format("{}, {}", vocabulary.end_of_document, vocabulary.end_of_document_source);
  if (flag == nullptr)
    return fmt::format("--eod-token-id {}: {}", vocabulary.end_of_document, what);
  if (any_in_training) {
    return fmt::format(
        "{} looks for the end-of-document token {}, but {}: such a document runs into the next one{}",
        flag, id, what,
        config.eod_mask_loss
            ? ""
            : " (--dataloader-inter-document-masking takes the ends that indexes tell)");
  }
  throw UsageError(fmt::format(
      "{} looks for the end-of-document token {}, but {}. If they end with another token, give its "
      "--eod-token-id; if the dataset was made without --append-eod, make it with that{}",
      flag, id, what,
      config.eod_mask_loss
          ? ""
          : ", or give --dataloader-inter-document-masking for the ends that its index tells"));
}

}  // namespace weft
