// The files that a tokenizer is read from, and the checksums that tell whether they are the same:
// what manifests of datasets and runs keep of it, and what commands are given.
//
// How they are named in JSON:
//
//   {"kind": "gpt2", "id": "gpt2:5d1c...", "files": [{"path": "...", "sha256": "..."}, ...]}
#pragma once

#include <compare>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// What is empty is not known. Paths as users gave them, or absolute in what is stored.
struct TokenizerFile {
  std::string path = {}, sha256 = {};

  auto operator<=>(const TokenizerFile&) const = default;
};

// The kinds of tokenizers: "gpt2" has two files, the others one.
inline constexpr std::string_view kGpt2Kind = "gpt2";                // vocab.json and merges.txt
inline constexpr std::string_view kHuggingFaceKind = "huggingface";  // tokenizer.json
inline constexpr std::string_view kTekkenKind = "tekken";            // tekken.json
// A rank file; "tiktoken:NAME" where the user names its pattern, which makes another tokenizer.
inline constexpr std::string_view kTiktokenKind = "tiktoken";

struct TokenizerFiles {
  std::string kind = {};                  // empty: no files are known
  std::vector<TokenizerFile> files = {};  // as many as the kind has, in its order

  bool empty() const { return files.empty(); }
  bool has_checksums() const;  // of all files
  auto operator<=>(const TokenizerFiles&) const = default;
};

inline bool is_gpt2(const TokenizerFiles& files) { return files.kind == kGpt2Kind; }
inline bool is_tiktoken(const TokenizerFiles& files) {
  return files.kind.starts_with(kTiktokenKind);
}

// A tokenizer of one file.
inline TokenizerFiles tokenizer_file(std::string_view kind, const std::string& path) {
  return {std::string(kind), {{path}}};
}

// The name of the pattern, or "".
inline std::string tiktoken_pattern(const TokenizerFiles& files) {
  if (!is_tiktoken(files) || files.kind.size() == kTiktokenKind.size()) return "";
  return files.kind.substr(kTiktokenKind.size() + 1);
}

// GPT-2's vocab.json and merges.txt. No files if both names are empty; one that is not known has an
// empty name.
TokenizerFiles gpt2_files(const std::filesystem::path& vocab_json,
                          const std::filesystem::path& merges_txt);

// Returns the files with absolute paths and their checksums; those without a name stay as they are.
// Two files have the same checksum if they are read as the same tokenizer: of merges.txt the
// SHA-256 is that of its lines as GPT-2's file has them, so that carriage returns, a byte order
// mark, or a missing version line or last line feed are no other file. Throws std::system_error if
// one cannot be read.
TokenizerFiles with_checksums(TokenizerFiles files);

// True if both know a file's checksum, or the kind, and it is another one.
bool are_different(const TokenizerFiles& a, const TokenizerFiles& b);

// Returns the kind and one checksum of all, the same for the same tokenizer; "" if nothing is
// known.
std::string id_of(const TokenizerFiles& files);

nlohmann::ordered_json to_json(const TokenizerFiles& files);
// What is absent, or of another type, is not known.
TokenizerFiles tokenizer_files_from(const nlohmann::ordered_json& json);

}  // namespace weft
