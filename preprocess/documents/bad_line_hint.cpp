#include "preprocess/documents/bad_line_hint.h"

#include <fmt/format.h>

#include <algorithm>

#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/base/terminal/text_pieces.h"
#include "preprocess/documents/exact_json_line.h"
#include "preprocess/documents/json_scanner.h"

namespace weft {
namespace {

using namespace std::string_view_literals;

struct FileKind {
  size_t at;
  std::string_view magic;
  const char* what;
  const char* how;
};

constexpr const char* kConvert = "convert it to JSON lines first";
constexpr const char* kAsFile =
    "it is read from a file of its own, not from a pipe, an address or compressed data";
constexpr const char* kWarc =
    "extract the text of its pages first (datatrove); of a WET file, which holds texts: zcat -f FILE "
    R"(| jq -Rsc 'split("WARC/1.0\r\n")[] | select(contains("WARC-Type: conversion")) | {text: )"
    R"(split("\r\n\r\n")[1:] | join("\r\n\r\n") | rtrimstr("\r\n\r\n")}')";
constexpr const char* kUtf16 = "convert it first (iconv -f UTF-16 -t UTF-8 FILE)";
constexpr const char* kUtf32 = "convert it first (iconv -f UTF-32 -t UTF-8 FILE)";
constexpr const char* kFetchFile = "fetch the file itself";

// Lists what people have instead of JSON lines, by the first bytes. The longer one of two that
// begin alike comes first.
constexpr FileKind kFileKinds[] = {
    {0, "WARC/1."sv, "a WARC file", kWarc},
    {0, "PAR1"sv, "a Parquet file", kAsFile},
    {0, "ARROW1"sv, "an Arrow file", kAsFile},
    {0, "\xFF\xFF\xFF\xFF"sv, "an Arrow stream", kAsFile},
    {0, "Obj\x01"sv, "an Avro file", kConvert},
    {0, "SQLite format 3\0"sv, "an SQLite database", kConvert},
    {0, "\x93NUMPY"sv, "a NumPy array", kConvert},
    {0, "\x89HDF\r\n"sv, "an HDF5 file", kConvert},
    {0, "%PDF-"sv, "a PDF file", "extract its text first"},
    {0, "PK\x03\x04"sv, "a zip archive", "unpack it first (unzip FILE)"},
    {0, "7z\xBC\xAF\x27\x1C"sv, "a 7z archive", "unpack it first (7z x FILE)"},
    {0, "Rar!\x1A\x07"sv, "a RAR archive", "unpack it first (unrar x FILE)"},
    {257, "ustar"sv, "a tar archive", "unpack it first (tar -xf FILE)"},
    {0, "\x5D\0\0"sv, "LZMA data without the frame of xz", "decompress it first (unlzma FILE)"},
    {0, "\x04\x22\x4D\x18"sv, "lz4 data", "decompress it first (lz4 -d FILE)"},
    {0, "\x1F\x9D"sv, "compress (.Z) data", "decompress it first (uncompress FILE)"},
    {0, "\x1F\x8B\x08"sv, "gzip data within compressed data", "decompress it once more (gunzip)"},
    {0, "\x28\xB5\x2F\xFD"sv, "zstd data within compressed data",
     "decompress it once more (unzstd)"},
    {0, "MMIDIDX\0\0"sv, "the .idx of a dataset", "give the corpus that it was made of"},
    {0, "version https://git-lfs"sv, "a pointer of Git LFS",
     "fetch the file itself (git lfs pull)"},
    {0, "<!DOCTYPE"sv, "a web page, perhaps a server's message in place of the file", kFetchFile},
    {0, "<!doctype"sv, "a web page, perhaps a server's message in place of the file", kFetchFile},
    {0, "<html"sv, "a web page, perhaps a server's message in place of the file", kFetchFile},
    {0, "<?xml"sv, "an XML file", kConvert},
    {0, "\xFF\xFE\0\0"sv, "UTF-32", kUtf32},
    {0, "\0\0\xFE\xFF"sv, "UTF-32", kUtf32},
    {0, "\xFF\xFE"sv, "UTF-16", kUtf16},
    {0, "\xFE\xFF"sv, "UTF-16", kUtf16},
    {0, "{\0"sv, "UTF-16", "convert it first (iconv -f UTF-16LE -t UTF-8 FILE)"},
    {0, "\0{"sv, "UTF-16", "convert it first (iconv -f UTF-16BE -t UTF-8 FILE)"},
    {0, "\0\0\0\0"sv, "a stretch of zero bytes", "the file is damaged: fetch or copy it again"},
};

std::string file_kind(std::string_view text) {
  for (const FileKind& kind : kFileKinds) {
    if (text.size() < kind.at || !text.substr(kind.at).starts_with(kind.magic)) continue;
    return fmt::format("this is {}: {}", kind.what, kind.how);
  }
  return "";
}

std::string shown_key(std::string_view key) {
  const std::string_view beginning = beginning_of(key, 40);
  return '"' + escape_for_terminal(beginning) + (beginning.size() < key.size() ? "...\"" : "\"");
}

// Chat data has no text of its own: a template, or none, makes one of its messages.
std::string chat_hint(std::string_view line) {
  const bool has_messages = find_member(line, "messages").starts_with('[');
  if (!has_messages && !find_member(line, "conversations").starts_with('[')) return "";
  return fmt::format(
      "; this looks like chat data: jq -c '{{text: ([.{}[].{}] | join(\"\\n\\n\"))}}' FILE makes "
      "one text of the messages of a line, without a template",
      has_messages ? "messages" : "conversations", has_messages ? "content" : "value");
}

std::string missing_key_hint(std::string_view line, const std::vector<std::string>& wanted) {
  line = trimmed(line);
  const auto is_missing = [line](const std::string& key) {
    return ExactJsonLine({key}).parse(line).problem == LineProblem::kMissingKey;
  };
  // The object in which the way to the first missing key ends.
  std::string owner = "the line";
  std::string_view object = line;
  const auto missing = std::find_if(wanted.begin(), wanted.end(), is_missing);
  for (const std::string& key : missing == wanted.end() ? KeyPath{} : nested_path(*missing)) {
    const std::string_view value = find_member(object, key);
    if (!value.starts_with('{')) break;
    object = value;
    owner = shown_key(key);
  }
  // There may be millions of keys, of megabytes each: the first ones are shown as they stand.
  constexpr size_t kMostShown = 8;
  std::vector<std::string_view> shown;
  int64_t num_others = 0;
  JsonScanner(object).object([&](std::string_view key, std::string_view) {
    if (std::find(shown.begin(), shown.end(), key) != shown.end()) return;
    shown.size() < kMostShown ? shown.push_back(key) : void(++num_others);
  });
  std::string hint = owner + (shown.empty()       ? " has no keys"
                              : shown.size() == 1 ? " has the key "
                                                  : " has the keys ");
  for (size_t i = 0; i < shown.size(); ++i) hint += (i == 0 ? "" : ", ") + shown_key(shown[i]);
  if (num_others > 0) hint += fmt::format(" and {} more", num_others);
  for (const std::string& key : wanted) {
    if (key.find(',') == key.npos || !is_missing(key)) continue;
    std::string apart = key;
    std::replace(apart.begin(), apart.end(), ',', ' ');
    return hint + "; --json-keys wants spaces between keys: --json-keys " +
           escape_for_terminal(apart);
  }
  return hint + chat_hint(line);
}

std::string not_a_string_hint(std::string_view value) {
  if (value.starts_with("null")) return "it is null";
  if (value.starts_with("true") || value.starts_with("false")) return "it is true or false";
  if (value.starts_with('{')) return "it is an object";
  if (value.starts_with('[')) return "it is a list";
  return "it is a number";
}

// For a line that is the head of a table: names of columns with commas or tabs between them.
std::string csv_hint(std::string_view line, const std::vector<std::string>& keys) {
  const auto is_name_byte = [](char c) {
    return c == '_' || c == '"' || (c >= '0' && c <= '9') ||
           ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  };
  const char separator = line.find('\t') == line.npos ? ',' : '\t';
  if (line.find(separator) == line.npos || line.ends_with(separator)) return "";
  for (std::string_view rest = line; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(separator));
    if (name.empty() || !std::all_of(name.begin(), name.end(), is_name_byte)) return "";
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
  }
  const bool has_commas = separator == ',';
  return fmt::format(
      "this looks like {}: sqlite3 :memory: '.mode {}' '.import FILE t' '.mode list' \"select "
      "json_object('{}', {}) from t\" makes JSON lines of one column",
      has_commas ? "CSV" : "a table with tabs", has_commas ? "csv" : "tabs", keys[0], keys[0]);
}

// Explains a line in which something that is not JSON begins at `position`.
std::string not_json_hint(std::string_view line, size_t position, bool is_first, bool is_too_deep,
                          const std::vector<std::string>& keys) {
  const std::string_view content = trimmed(line);
  if (is_too_deep) {
    return fmt::format("more than {} brackets within each other are refused, as by Python",
                       kMaxJsonDepth);
  }
  if (content == "{") {
    return "this looks like an object over several lines: write each on one line (jq -c . FILE)";
  }
  if (content.starts_with("{'")) {
    return "this looks like Python's notation of a dict, not JSON: write it with json.dumps";
  }
  if (content.starts_with("\xEF\xBB\xBF")) {
    return is_first ? "tail -c +4 FILE leaves it out"
                    : "several files with such marks were put together: LC_ALL=C sed "
                      "'s/^\\xEF\\xBB\\xBF//' FILE leaves them out";
  }
  const std::string_view rest = position < line.size() ? line.substr(position) : "";
  if (content.starts_with('{') && trimmed(rest) == ",") {
    return "a comma behind the object, as in an array: remove it (sed 's/,[[:space:]]*$//' FILE)";
  }
  if (content.starts_with("{") && rest.starts_with('{')) {
    return "several objects on one line: write each on its own (jq -c . FILE)";
  }
  if (is_first && !content.starts_with('{')) {
    if (std::string csv = csv_hint(content, keys); !csv.empty()) return csv;
    return "input is JSON lines, one {\"text\": \"...\"} on each; --input-format text makes one "
           "document of each text file, or of each of its lines";
  }
  return "";
}

std::string hint_for(std::string_view text, std::string_view line, bool is_first,
                     const LineOutcome& outcome, const std::vector<std::string>& keys) {
  const bool is_no_object =
      outcome.problem == LineProblem::kNotJson || outcome.problem == LineProblem::kNotAnObject;
  if (is_no_object || outcome.problem == LineProblem::kInvalidUtf8) {
    if (std::string kind = file_kind(text); !kind.empty()) return kind;
  }
  if (is_no_object && trimmed(line).starts_with('[')) {
    return "this looks like one JSON array: write its elements on lines of their own "
           "(jq -c '.[]' FILE)";
  }
  switch (outcome.problem) {
    case LineProblem::kNotJson:
      return not_json_hint(line, outcome.position, is_first,
                           outcome.reason == LineReason::kNestedTooDeeply, keys);
    case LineProblem::kNotAnObject:
      return "a document is an object: {\"text\": \"...\"}";
    case LineProblem::kMissingKey:
      return missing_key_hint(line, keys);
    case LineProblem::kNotAString:
      return not_a_string_hint(line.substr(std::min(outcome.position, line.size())));
    default:
      return "";
  }
}

void find_invalid_byte(LineOutcome& outcome, std::string_view text) {
  outcome.position = num_valid_utf8_bytes(text);
  outcome.detail = fmt::format("byte 0x{:02X}", static_cast<uint8_t>(text[outcome.position]));
}

}  // namespace

void explain_bad_line(BadLine& bad_line, std::string_view text, std::string_view line,
                      const std::vector<std::string>& keys) {
  LineOutcome& outcome = bad_line.outcome;
  if (outcome.problem == LineProblem::kInvalidUtf8) find_invalid_byte(outcome, line);
  bad_line.hint = hint_for(text, line, bad_line.offset_bytes == 0, outcome, keys);
}

void explain_bad_text(BadLine& bad_line, std::string_view text) {
  if (bad_line.outcome.problem != LineProblem::kInvalidUtf8) return;
  find_invalid_byte(bad_line.outcome, text);
  bad_line.hint = file_kind(text);
  if (bad_line.hint.empty()) {
    bad_line.hint =
        "texts are UTF-8: convert what is written otherwise (iconv -f LATIN1 -t UTF-8 FILE)";
  }
}

}  // namespace weft
