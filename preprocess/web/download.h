// Files from the web, whole or not at all: over several connections, continued after a kill,
// checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "preprocess/stream/byte_source.h"
#include "preprocess/web/fetch_options.h"
#include "preprocess/web/remote_file.h"

namespace weft {

struct DownloadRequest {
  std::shared_ptr<RemoteFile> file;
  // Other addresses of the same file, tried in this order.
  std::vector<std::shared_ptr<RemoteFile>> mirrors;
  std::filesystem::path output;
  // Expected, 64 hexadecimal digits; "": what Hugging Face says of its large files, else unchecked.
  std::string sha256;
  FetchOptions fetch;
};

struct DownloadResult {
  int64_t num_bytes = 0;
  std::string sha256;       // of the file
  bool is_checked = false;  // against an expected one
};

// Called a few times a second; `total_bytes` is -1 while unknown. Returning false stops the
// download.
using DownloadProgress = std::function<bool(int64_t num_bytes, int64_t total_bytes)>;

// Downloads into OUTPUT.part, checks, renames. What an earlier call left (OUTPUT.part and
// OUTPUT.part.json) is continued where the server proves that the file is still the same; otherwise
// it starts from the first byte. Only what has come without a gap is continued: after a crash, the
// parts behind it that were on their way at the same time are fetched again. A wrong checksum
// removes the part and goes to the next mirror; so does a network failure. Throws NetworkError
// (URL, cause), ChecksumMismatch, LimitExceeded, std::system_error (writing; too little space,
// before it begins), and ReadCancelled when `progress` said stop: what was received stays for the
// next call.
DownloadResult download_file(const DownloadRequest& request, const DownloadProgress& progress = {});

// Throws UsageError if OUTPUT.part or OUTPUT.part.json is there and is not a download's,
// which would overwrite it. A download writes its state before its part.
void check_download_part(const std::filesystem::path& output);

// The address that a file was downloaded from, as url_without_secrets() shows it: download_file()
// keeps it in the file's attribute user.xdg.origin.url, as browsers do. Empty if it has none.
std::string origin_url_of(const std::filesystem::path& file);

}  // namespace weft
