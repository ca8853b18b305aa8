// One file over several connections: what a FetchPlan lacks, in ranged requests, with retries.
// Where the bytes go is a FetchSink's business: into a file (download) or to a reader (url_source).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "preprocess/web/fetch_options.h"
#include "preprocess/web/fetch_plan.h"
#include "preprocess/web/url.h"

namespace weft {

// What has come cannot be continued: the file has changed, or nothing proves that it has not.
struct CannotContinue {
  std::string why;
};

// Called on the thread that runs Fetch::run(); what it throws ends that.
class FetchSink {
 public:
  // What the server says of the file, before the first byte; again when the size becomes known.
  virtual void on_identity(const UrlIdentity& identity, const std::string& linked_sha256) = 0;
  // Bytes from here on are not wanted yet.
  virtual int64_t window_end() { return FetchPlan::kEndless; }
  virtual void write(int64_t offset_bytes, std::string_view bytes) = 0;
  // Several times a second.
  virtual void on_tick() = 0;

 protected:
  ~FetchSink() = default;
};

class Fetch {
 public:
  // `identity`: of the file that `plan` holds parts of; nothing known if it holds none. All
  // references must outlive it.
  Fetch(std::string url, const FetchOptions& options, UrlIdentity& identity, FetchPlan& plan,
        FetchSink& sink);
  ~Fetch();

  // Returns when `plan` is complete. Retries what may pass: connection trouble, 408, 425, 429, 5xx,
  // with growing pauses, or as long as Retry-After says (10 minutes at most). A server that ignores
  // ranges, or gives nothing to prove that they belong together, gets one connection. Throws
  // NetworkError (URL, cause), CannotContinue, LimitExceeded.
  // May be called again when more is missing in `plan`; connections are used again.
  void run();

  // From any thread: the window has moved.
  void wake();

 private:
  class Connection;
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
