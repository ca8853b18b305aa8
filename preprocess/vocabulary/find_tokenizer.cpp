#include "preprocess/vocabulary/find_tokenizer.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "indexed_dataset/base/process/environment.h"
#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/text_file.h"
#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "tokenizer/formats/load_tokenizer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string_view kind_of(TokenizerFormat format) {
  if (format == TokenizerFormat::kHuggingFace) return kHuggingFaceKind;
  return format == TokenizerFormat::kTekken ? kTekkenKind : kTiktokenKind;
}

// A file of no known format is refused when it is loaded, which tells more.
TokenizerFiles recognized_file(const fs::path& path) {
  constexpr int64_t kLookedAt = 4096;
  const InputFile file(path);
  std::string begin(static_cast<size_t>(std::min(kLookedAt, file.size_bytes())), '\0');
  file.read_at(begin.data(), begin.size(), 0);
  return tokenizer_file(kind_of(tokenizer_format_of(begin)), path.string());
}

std::optional<fs::path> only_rank_file(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".tiktoken") found.push_back(entry.path());
  }
  if (found.size() <= 1) return found.empty() ? std::nullopt : std::optional(found.front());
  std::sort(found.begin(), found.end());
  throw UsageError("the folder '" + folder.string() + "' holds several rank files, among them " +
                   found[0].filename().string() + " and " + found[1].filename().string() +
                   "; name the file");
}

TokenizerFiles tokenizer_in(const fs::path& folder) {
  if (is_there(folder / "tokenizer.json")) return recognized_file(folder / "tokenizer.json");
  if (is_there(folder / "vocab.json") && is_there(folder / "merges.txt"))
    return gpt2_files(folder / "vocab.json", folder / "merges.txt");
  if (is_there(folder / "tekken.json")) return recognized_file(folder / "tekken.json");
  if (const auto ranks = only_rank_file(folder)) return recognized_file(*ranks);
  if (is_there(folder / "tokenizer.model")) return recognized_file(folder / "tokenizer.model");
  throw UsageError(
      "the folder '" + folder.string() +
      "' holds no tokenizer: neither tokenizer.json, nor vocab.json and merges.txt, nor "
      "tekken.json, nor a *.tiktoken file, nor tokenizer.model");
}

// The folder of the revision that refs/main names, or else of the only one that was fetched.
// [huggingface_hub, "Understand caching"]
std::optional<fs::path> snapshot_of(const fs::path& model_folder) {
  const fs::path snapshots = model_folder / "snapshots", main = model_folder / "refs" / "main";
  if (is_there(main)) {
    std::string revision = read_text_file(main);
    revision.erase(revision.find_last_not_of(" \t\r\n") + 1);
    if (is_there(snapshots / revision)) return snapshots / revision;
  }
  if (!is_there(snapshots)) return std::nullopt;
  std::vector<fs::path> all;
  for (const auto& entry : fs::directory_iterator(snapshots)) all.push_back(entry.path());
  return all.size() == 1 ? std::optional(all.front()) : std::nullopt;
}

bool may_be_model_name(std::string_view name) {
  return !name.empty() && name.front() != '/' && name.front() != '.' && name.back() != '/' &&
         std::count(name.begin(), name.end(), '/') <= 1;
}

}  // namespace

std::vector<fs::path> hub_caches() {
  if (const std::string cache = environment_text("HF_HUB_CACHE"); !cache.empty()) return {cache};
  if (const std::string home = environment_text("HF_HOME"); !home.empty())
    return {fs::path(home) / "hub"};
  std::vector<fs::path> caches;
  if (const std::string cache = environment_text("XDG_CACHE_HOME"); !cache.empty())
    caches.push_back(fs::path(cache) / "huggingface/hub");
  if (const std::string home = environment_text("HOME"); !home.empty())
    caches.push_back(fs::path(home) / ".cache/huggingface/hub");
  return caches;
}

TokenizerFiles find_tokenizer(const std::string& name) {
  if (fs::is_directory(name)) return tokenizer_in(name);
  if (is_there(name)) return recognized_file(name);
  std::string looked_in;
  if (may_be_model_name(name)) {
    std::string model = "models--" + name;
    if (const size_t slash = model.find('/'); slash != model.npos) model.replace(slash, 1, "--");
    for (const fs::path& cache : hub_caches()) {
      if (const auto snapshot = snapshot_of(cache / model)) return tokenizer_in(*snapshot);
      looked_in +=
          (looked_in.empty() ? ", nor a model in the hub's cache " : " or ") + cache.string();
    }
  }
  throw UsageError(
      "the tokenizer '" + name + "' is neither a file nor a folder" + looked_in +
      (looked_in.empty() ? "" : "; fetch it with: hf download " + name + " tokenizer.json"));
}

}  // namespace weft
