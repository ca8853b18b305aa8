#include "indexed_dataset/format/sidecars/tokenizer_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/sha256.h"
#include "indexed_dataset/base/storage/text_file.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMergesTxt = 1;

// The lines of merges.txt as in GPT-2's own file.
std::string canonical_merges(std::string_view content) {
  std::string lines = "#version: 0.2\n";
  lines.reserve(content.size() + lines.size() + 1);
  bool is_first = true;
  for (std::string_view left = without_byte_order_mark(content); !left.empty();) {
    const size_t end = std::min(left.find('\n'), left.size());
    std::string_view line = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool is_version = is_first && line.starts_with("#version");
    is_first = false;
    if (is_version || (line.empty() && left.empty())) continue;
    lines.append(line).push_back('\n');
  }
  return lines;
}

std::string checksum(const std::string& kind, size_t file_idx, const std::string& path) {
  if (kind == kGpt2Kind && file_idx == kMergesTxt) {
    return sha256_of(canonical_merges(read_regular_file(path)));
  }
  return sha256_of_file(path);
}

}  // namespace

bool TokenizerFiles::has_checksums() const {
  return !files.empty() && std::none_of(files.begin(), files.end(), [](const TokenizerFile& file) {
    return file.sha256.empty();
  });
}

TokenizerFiles gpt2_files(const std::filesystem::path& vocab_json,
                          const std::filesystem::path& merges_txt) {
  if (vocab_json.empty() && merges_txt.empty()) return {};
  return {std::string(kGpt2Kind), {{vocab_json.string()}, {merges_txt.string()}}};
}

TokenizerFiles with_checksums(TokenizerFiles files) {
  for (size_t i = 0; i < files.files.size(); ++i) {
    TokenizerFile& file = files.files[i];
    if (file.path.empty()) continue;
    file.sha256 = checksum(files.kind, i, file.path);
    file.path = std::filesystem::absolute(file.path).string();
  }
  return files;
}

bool are_different(const TokenizerFiles& a, const TokenizerFiles& b) {
  if (a.empty() || b.empty()) return false;
  if (a.kind != b.kind || a.files.size() != b.files.size()) return true;
  for (size_t i = 0; i < a.files.size(); ++i) {
    const std::string &of_a = a.files[i].sha256, &of_b = b.files[i].sha256;
    if (!of_a.empty() && !of_b.empty() && of_a != of_b) return true;
  }
  return false;
}

std::string id_of(const TokenizerFiles& files) {
  std::string all;
  for (const TokenizerFile& file : files.files) all += file.sha256 + "\n";
  const bool is_known = std::any_of(all.begin(), all.end(), [](char c) { return c != '\n'; });
  return is_known ? files.kind + ":" + sha256_of(all) : "";
}

Json to_json(const TokenizerFiles& files) {
  Json list = Json::array();
  for (const TokenizerFile& file : files.files) {
    list.push_back({{"path", file.path}, {"sha256", file.sha256}});
  }
  return {{"kind", files.kind}, {"id", id_of(files)}, {"files", std::move(list)}};
}

TokenizerFiles tokenizer_files_from(const Json& json) {
  const auto text_at = [](const Json& object, const char* name) {
    const auto found = object.is_object() ? object.find(name) : object.end();
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
  };
  TokenizerFiles files;
  files.kind = text_at(json, "kind");
  if (!json.is_object() || !json.contains("files") || !json["files"].is_array()) return {};
  for (const Json& file : json["files"]) {
    files.files.push_back({text_at(file, "path"), text_at(file, "sha256")});
  }
  const bool is_known = is_gpt2(files) || is_tiktoken(files) || files.kind == kHuggingFaceKind ||
                        files.kind == kTekkenKind;
  const bool is_whole = files.files.size() == (is_gpt2(files) ? 2 : 1);
  return is_known && is_whole ? files : TokenizerFiles();
}

}  // namespace weft
