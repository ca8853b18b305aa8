// A file on the web as a stream of bytes, fetched ahead over several connections while it is read:
// downloading, decompressing and tokenizing overlap, and nothing is stored.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "preprocess/stream/byte_source.h"
#include "preprocess/web/fetch_options.h"
#include "preprocess/web/remote_file.h"

namespace weft {

struct UrlOptions {
  // num_connections * part_bytes, 32 MiB, are in memory at most: at 1 GB/s the reader may pause for
  // 30 ms.
  UrlOptions() {
    fetch.num_connections = 4;
    fetch.part_bytes = int64_t{8} << 20;
  }
  FetchOptions fetch;
  // The file that an earlier look has found: another one is refused. Without validator() any is
  // taken.
  UrlIdentity expected;
};

// A file as its server describes it. stat_url() throws NetworkError, ReadCancelled, and what the
// file's functions throw.
struct UrlStat {
  UrlIdentity identity;
  std::string first_bytes;  // kNumMagicBytes of them, fewer if the file has fewer
  bool has_ranges = true;   // the server gives them
};
UrlStat stat_url(std::shared_ptr<RemoteFile> file, const UrlOptions& options,
                 const std::atomic<bool>& cancelled);

// The raw bytes from `begin` to the file's end; nothing if the file ends before. Every request says
// which file it is about: one that changes on the way gives NetworkError from read(), never bytes
// of two files. So do connections that fail for good; what can pass is retried. `cancelled` must
// outlive the source.
std::unique_ptr<ByteSource> open_url_source(std::shared_ptr<RemoteFile> file,
                                            const UrlOptions& options, int64_t begin,
                                            const std::atomic<bool>& cancelled);

// A small file in memory, such as a list of checksums. Throws as stat_url(), and LimitExceeded for
// more than `max_bytes`.
std::string read_url(std::shared_ptr<RemoteFile> file, const FetchOptions& options,
                     int64_t max_bytes, const std::atomic<bool>& cancelled);

// Fills `data` with the bytes of the range, which lie within the file; any number of threads may
// read one file so. Throws as ByteSource::read of a source, and NetworkError if the file is
// shorter.
void read_url_range(RemoteFile& file, const UrlOptions& options, ByteRange range, char* data,
                    const std::atomic<bool>& cancelled);

// The identity as one line of text ("SIZE etag ETAG" or "SIZE changed DATE"), "" without a
// validator.
std::string version_text(const UrlIdentity& identity);

}  // namespace weft
