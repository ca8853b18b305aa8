#include "preprocess/web/url.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/sha256.h"

namespace weft {
namespace {

struct UrlCloser {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using ParsedUrl = std::unique_ptr<CURLU, UrlCloser>;

// Null if `url` is none.
ParsedUrl parse(const std::string& url) {
  ParsedUrl parsed(curl_url());
  if (!parsed) throw std::bad_alloc();
  if (url.find('\0') != url.npos) return nullptr;
  const bool good =
      curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK;
  return good ? std::move(parsed) : nullptr;
}

std::string part_of(const ParsedUrl& url, CURLUPart part, unsigned flags = 0) {
  char* text = nullptr;
  if (!url || curl_url_get(url.get(), part, &text, flags) != CURLUE_OK) return "";
  std::string result(text);
  curl_free(text);
  return result;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Says how to get at an address that is none of the web.
std::string advice_for_scheme(const std::string& scheme) {
  if (scheme == "file") return "; give the path itself, without file://";
  if (scheme == "az" || scheme == "abfs")
    return "; give its https address, or copy it to a disk first (with the store's own program)";
  return "";
}

// The query without what changes each time that somebody signs the address: who may read the file,
// and until when. Of a signed address only a version of the file counts.
std::string query_without_signature(const ParsedUrl& url) {
  std::vector<std::pair<std::string, std::string>> parameters;  // name in lower case, text
  std::istringstream texts(part_of(url, CURLUPART_QUERY));
  for (std::string text; std::getline(texts, text, '&');)
    parameters.emplace_back(lower(text.substr(0, text.find('='))), text);
  // Amazon's and Google's signatures, and those that are named so or are Azure's.
  const auto is_signature = [](const auto& parameter) {
    const std::string& name = parameter.first;
    return name.starts_with("x-amz-") || name.starts_with("x-goog-") || name == "sig" ||
           name.ends_with("signature");
  };
  if (std::any_of(parameters.begin(), parameters.end(), is_signature)) {
    std::erase_if(parameters, [](const auto& parameter) {
      const std::string& name = parameter.first;
      return name != "versionid" && name != "generation" && name != "snapshot";
    });
  }
  std::string rest;
  for (const auto& [name, text] : parameters) rest += (rest.empty() ? "" : "&") + text;
  return rest;
}

}  // namespace

void check_url(const std::string& url, bool allow_http) {
  const std::string shown = std::string(1, '\'').append(display_url(url)).append(1, '\'');
  const ParsedUrl parsed = parse(url);
  const std::string scheme = lower(part_of(parsed, CURLUPART_SCHEME));
  if (scheme != "https" && scheme != "http")
    throw UsageError(shown + ": not an https URL" + advice_for_scheme(scheme));
  if (part_of(parsed, CURLUPART_HOST).empty()) throw UsageError(shown + ": has no host");
  if (!part_of(parsed, CURLUPART_USER).empty() || !part_of(parsed, CURLUPART_PASSWORD).empty()) {
    throw UsageError(
        shown +
        ": holds a user name or password, which others can read on the command line; for "
        "Hugging Face set HF_TOKEN in the environment");
  }
  if (scheme == "http" && !allow_http) {
    throw UsageError(shown +
                     ": unencrypted; use an https URL, or --allow-http if you trust the network");
  }
}

std::string percent_encoded(std::string_view text, std::string_view kept) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string encoded;
  for (const char c : text) {
    const bool stays = kPlain.find(c) != kPlain.npos || kept.find(c) != kept.npos;
    encoded += stays ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

// CURLU_URLDECODE refuses control characters, and a name should still come of them.
std::string percent_decoded(const std::string& text) {
  int size_bytes = 0;
  char* decoded =
      curl_easy_unescape(nullptr, text.data(), static_cast<int>(text.size()), &size_bytes);
  if (decoded == nullptr) throw std::bad_alloc();
  std::string result(decoded, static_cast<size_t>(size_bytes));
  curl_free(decoded);
  return result;
}

std::string url_path(const std::string& url) {
  return percent_decoded(part_of(parse(url), CURLUPART_PATH));
}

std::string url_file_name(const std::string& url) {
  const std::string path = url_path(url);
  std::string name = path.substr(path.rfind('/') + 1);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_' && c != '-')
      c = '_';
  }
  // The end of a name tells its format.
  if (name.size() > 200) name.erase(0, name.size() - 200);
  name.erase(0, std::min(name.find_first_not_of('.'), name.size()));
  return name;
}

std::string url_without_secrets(const std::string& url) {
  const std::string query = query_without_signature(parse(url));
  if (query.empty()) return display_url(url);
  return display_url(url) + " (query " + sha256_base64(query).substr(0, 16) + ")";
}

bool is_https(const std::string& url) {
  return lower(part_of(parse(url), CURLUPART_SCHEME)) == "https";
}

bool is_same_origin(const std::string& url, const std::string& other) {
  const ParsedUrl a = parse(url), b = parse(other);
  if (!a || !b) return false;
  for (const CURLUPart part : {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT}) {
    if (lower(part_of(a, part, CURLU_DEFAULT_PORT)) != lower(part_of(b, part, CURLU_DEFAULT_PORT)))
      return false;
  }
  return true;
}

bool UrlIdentity::matches(const UrlIdentity& answer, bool is_partial) const {
  if (validator().empty()) return false;
  if (size_bytes >= 0 && answer.size_bytes >= 0 && size_bytes != answer.size_bytes) return false;
  if (is_partial && answer.etag.empty()) {
    return answer.last_modified.empty() || answer.last_modified == last_modified;
  }
  return etag.empty() ? last_modified == answer.last_modified : etag == answer.etag;
}

bool is_clean_validator(std::string_view text, bool is_etag) {
  if (text.empty() || text.size() > 1000) return false;
  const auto is_printable = [](unsigned char c) { return c >= ' ' && c != 0x7f; };
  if (!std::all_of(text.begin(), text.end(), is_printable)) return false;
  if (!is_etag) return true;
  return text.size() >= 2 && text.front() == '"' && text.find('"', 1) == text.size() - 1;
}

}  // namespace weft
