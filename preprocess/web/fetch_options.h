// How files are fetched from the web. No network and no libcurl here.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

// How s3:// and gs:// addresses are read, where the environment does not say it.
struct S3Options {
  std::string endpoint;         // of a store that is not AWS's; "": see find_s3_endpoint()
  bool is_unsigned = false;     // public buckets, without any keys
  bool requester_pays = false;  // the reader of the bucket pays for its requests
};

struct HttpOptions {
  bool allow_http = false;  // unencrypted; never reached by a redirect from https
  int connect_timeout_s = 15;
  // Slower than 1 kB/s for this long counts as a broken connection.
  int stall_timeout_s = 30;
  S3Options s3;
};

struct FetchOptions {
  HttpOptions http;
  int num_connections = 8;
  int num_attempts = 5;        // in a row that bring the file no further
  double first_backoff_s = 1;  // doubles with each of them, up to 60 s; up to half of it is random
  // Asked for in one request; 0: a quarter of the bytes that one connection gets, 4 to 64 MiB.
  int64_t part_bytes = 0;
  // A longer file, or a body without end, is refused.
  int64_t max_bytes = int64_t{1} << 40;
};

}  // namespace weft
