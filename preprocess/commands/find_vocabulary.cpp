#include "preprocess/commands/find_vocabulary.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/stop_signal.h"
#include "indexed_dataset/base/storage/lock_file.h"
#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "preprocess/vocabulary/load_vocabulary.h"
#include "preprocess/web/download.h"

namespace weft {
namespace {

struct PublishedFile {
  const char* name;
  const char* url;
  const char* sha256;
};

// The addresses that Megatron-LM's and AWS's instructions give for GPT-2.
constexpr PublishedFile kPublishedFiles[] = {
    {"vocab.json", "https://s3.amazonaws.com/models.huggingface.co/bert/gpt2-vocab.json",
     "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"},
    {"merges.txt", "https://s3.amazonaws.com/models.huggingface.co/bert/gpt2-merges.txt",
     "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"},
};

constexpr char kWhatToDo[] =
    "\n  Give the vocabulary in one of these ways:"
    "\n    --tokenizer PATH (tokenizer.json, *.tiktoken, tekken.json, or a folder)"
    "\n    --vocab-file vocab.json --merge-file merges.txt"
    "\n    WEFT_GPT2_DIR=FOLDER, or the folder ~/.cache/weft/gpt2, with vocab.json and merges.txt "
    "in it"
    "\n    or learn one from your corpus: weft-data train-vocab --input CORPUS --vocab-size 8192 "
    "--output FOLDER";

std::filesystem::path cache_folder() {
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') {
    throw UsageError(std::string("no vocabulary given, and HOME is not set to look for one") +
                     kWhatToDo);
  }
  return std::filesystem::path(home) / ".cache" / "weft" / "gpt2";
}

// Takes the lock that is held while downloading: two runs that start on one home folder would write
// the same part file.
std::unique_ptr<LockFile> wait_for_lock(const std::filesystem::path& path) {
  for (bool is_first = true;; is_first = false) {
    try {
      return std::make_unique<LockFile>(path);
    } catch (const LockedByAnotherRun& locked) {
      if (is_first)
        print_message(std::string("waiting for another run's download: ") + locked.what());
    }
    if (stop_signal() != 0) throw StoppedBySignal(stop_signal());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

TokenizerFiles download_vocabulary() {
  const std::filesystem::path folder = cache_folder();
  make_folder(folder, "no vocabulary given");
  const auto lock = wait_for_lock(folder / "download.lock");
  for (const PublishedFile& file : kPublishedFiles) {
    DownloadRequest request;
    request.file = make_web_file(file.url, /*allow_http=*/false);
    request.output = folder / file.name;
    request.sha256 = file.sha256;
    request.fetch.num_attempts = 2;  // the user waits for it, and can do something about it
    request.fetch.http.connect_timeout_s = 10;
    if (std::filesystem::exists(request.output)) continue;
    print_message("Downloading " + request.file->name() + " to " + request.output.string());
    try {
      download_file(request, [](int64_t, int64_t) { return stop_signal() == 0; });
    } catch (const ReadCancelled&) {
      throw StoppedBySignal(stop_signal());
    } catch (const NetworkError& error) {
      throw NetworkError(
          std::string("no GPT-2 vocabulary was found, and it could not be downloaded: ") +
          error.what() + kWhatToDo);
    }
  }
  return gpt2_files(folder / "vocab.json", folder / "merges.txt");
}

// Bytes without an entry, in hexadecimal, but for those that no UTF-8 has.
std::string names_of_dropped_bytes(const Vocabulary& vocabulary) {
  std::string names;
  for (int byte = 0; byte < 0xF5; ++byte) {
    if (byte == 0xC0 || byte == 0xC1 || !vocabulary.missing_bytes()[static_cast<size_t>(byte)])
      continue;
    names += fmt::format("{}{:02X}", names.empty() ? "" : " ", byte);
  }
  return names;
}

}  // namespace

std::vector<std::string> describe_tokenizer(const FoundVocabulary& found, int64_t end_of_document) {
  const Vocabulary& vocabulary = *found.vocabulary;
  std::string summary =
      fmt::format("tokenizer: {}, {}, {} ids, pattern {}", found.files.files.at(0).path,
                  found.files.kind, vocabulary.size(), vocabulary.pattern_name());
  if (end_of_document >= 0) {
    const auto id = static_cast<int32_t>(end_of_document);
    summary += fmt::format("; documents end with {} ({})", vocabulary.bytes(id), id);
  }
  std::vector<std::string> lines = {summary};
  if (const std::string bytes = names_of_dropped_bytes(vocabulary); !bytes.empty()) {
    lines.push_back("note: the tokenizer has no entry for the bytes " + bytes +
                    ": they are left out of texts, as Hugging Face's tokenizers do");
  }
  if (vocabulary.num_unreachable() > 0) {
    lines.push_back(
        fmt::format("note: {} of its entries come out of no text", vocabulary.num_unreachable()));
  }
  return lines;
}

void make_folder(const std::filesystem::path& folder, const std::string& option) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return;
  throw std::system_error(error, option + ": cannot make the folder '" + folder.string() + "'");
}

FoundVocabulary find_or_download_vocabulary(const VocabularyOptions& given) {
  const auto there = find_tokenizer_files(given.files());
  const TokenizerFiles files = there ? *there : download_vocabulary();
  const FoundVocabulary found = {load_vocabulary(files), with_checksums(files)};
  if (!is_gpt2(files)) return found;
  // The load cannot tell that two merges have changed places.
  const TokenizerFile &vocab_json = found.files.files[0], &merges_txt = found.files.files[1];
  if (vocab_json.sha256 == kPublishedFiles[0].sha256 &&
      merges_txt.sha256 != kPublishedFiles[1].sha256) {
    throw std::runtime_error(
        merges_txt.path + ": stands beside GPT-2's vocab.json (" + vocab_json.path +
        ") and is not GPT-2's merges.txt: its merges are others, or in another order; fetch it "
        "again");
  }
  return found;
}

}  // namespace weft
