// Web addresses as text, and what proves that an address still gives the same file. No network
// here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "indexed_dataset/base/terminal/terminal_text.h"  // looks_like_url, display_url

namespace weft {

// Throws UsageError for what is no http(s) URL, for unencrypted http unless
// `allow_http`, and for a URL with a user name or password in it (command lines and logs are no
// place for these).
void check_url(const std::string& url, bool allow_http);

// All bytes as %XX but letters, digits, "-._~" and those of `kept`: for a part of a URL.
std::string percent_encoded(std::string_view text, std::string_view kept = "");
// The text with each %XX as its byte.
std::string percent_decoded(const std::string& text);

// The decoded path: "/a b/c.jsonl".
std::string url_path(const std::string& url);

// One component that is safe as a file name, from the URL's last one: of [A-Za-z0-9._-] only
// (others become '_'), no leading dot, at most 200 characters; "" where nothing is left.
std::string url_file_name(const std::string& url);

// Which file an address names, for files and messages: host, path, and a hash of its query, which
// may be a secret. A signature is left out of it: it says who may read the file, and changes each
// time.
std::string url_without_secrets(const std::string& url);

bool is_https(const std::string& url);

// True if both have the same scheme, host and port.
bool is_same_origin(const std::string& url, const std::string& other);

// Which file a server gave. Only a strong ETag, or else the time of the last change together with
// the size, says whether two answers are parts of the same one (RFC 9110, 8.8 and 13.1.5).
struct UrlIdentity {
  int64_t size_bytes = -1;    // -1: not known before the end
  std::string etag;           // with its quotes; "" unless strong
  std::string last_modified;  // as the server wrote it; "" if it did not

  // For If-Range; "" if nothing proves that two answers belong together.
  const std::string& validator() const { return etag.empty() ? last_modified : etag; }
  // False if `answer` is, or may be, of another file. An unknown size fits any; an answer to
  // If-Range may leave out the ETag it was asked about (`is_partial`).
  bool matches(const UrlIdentity& answer, bool is_partial) const;
};

// True if `text` may stand in a header we send back: printable, a strong ETag if `is_etag`.
bool is_clean_validator(std::string_view text, bool is_etag);

}  // namespace weft
