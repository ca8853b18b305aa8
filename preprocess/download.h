// One file from one URL, whole or not at all, over HTTPS (libcurl).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace weft {

struct DownloadRequest {
  std::string url;
  std::filesystem::path output;
  std::string sha256;       // expected, 64 hexadecimal digits; "" does not check
  bool allow_http = false;  // unencrypted; never reached by a redirect from https
  int num_attempts = 5;     // in a row without a byte of progress
  int connect_timeout_s = 15;
  // Slower than 1 kB/s for this long counts as a broken connection.
  int stall_timeout_s = 30;
  double first_backoff_s = 1;  // doubles with each attempt, up to 60 s
};

// Called a few times a second; `total_bytes` is -1 while unknown. Returning false stops the
// download.
using DownloadProgress = std::function<bool(int64_t num_bytes, int64_t total_bytes)>;

// Thrown when `progress` said stop. What was received stays for the next call.
struct DownloadStopped {};

// Downloads into OUTPUT.part, checks, renames. A part left by an earlier call is continued where
// the server proves by a strong ETag that the file is still the same (kept in OUTPUT.part.etag);
// otherwise it starts from the first byte. Retries what may pass (connection trouble, 408, 429,
// 5xx) with growing pauses. At most 5 redirects. Throws NetworkError (URL, cause), ChecksumMismatch
// (the part is removed), std::system_error (writing), std::invalid_argument (not an http(s) URL),
// DownloadStopped.
void download_file(const DownloadRequest& request, const DownloadProgress& progress = {});

}  // namespace weft
