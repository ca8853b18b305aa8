// A file on the web read at offsets, a few kB at a time: for the tables that tell where it can be
// cut (input_layout.h), without fetching what lies between.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "preprocess/stream/random_access_file.h"
#include "preprocess/web/url_source.h"

namespace weft {

// Not thread-safe. One connection, kept; what was fetched last, and the file's last 64 KiB, are
// kept too, so that a footer and the table before it are one request.
class UrlFile final : public RandomAccess {
 public:
  struct Limits {
    int64_t max_requests = 64;
    int64_t max_bytes = int64_t{16} << 20;
  };
  // options.expected says which file, with its size. `cancelled` must outlive this.
  UrlFile(const std::string& url, const UrlOptions& options, const std::atomic<bool>& cancelled,
          const Limits& limits);
  ~UrlFile() override;

  int64_t size_bytes() const override;
  // False also where the limits are reached: a count of requests and bytes, no time, so that all
  // who ask get as far. Throws NetworkError (the file has changed, trouble that does not pass, a
  // server that gives no ranges), ReadCancelled.
  bool read_at(int64_t offset, void* data, size_t size_bytes) const override;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
