// One remote file, as the requests for it are made: their address and headers, and what is done
// after an answer that is not the file. An address of the web is asked for as it is; a store (room
// stores) has a class of its own, which signs each attempt anew or finds out where the bytes lie.
//
//   Fetch:  request() -> HTTP -> 200, 206, 416: describe(), then the bytes
//                             -> any other status, and redirects not followed: judge()
//                                  asks_anew: request() at once; may_pass: after a pause;
//                                  else, or by an exception, the fetch ends
//
// No network and no libcurl here.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "preprocess/web/url.h"

namespace weft {

// The bytes from `begin` up to, not including, `end`.
struct ByteRange {
  // The end of a file whose size is not known yet.
  static constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

  int64_t begin = 0, end = 0;
};

struct RemoteRequest {
  std::string url;                     // http(s), as HttpOptions allow it
  std::vector<std::string> headers{};  // "Name: value"; HttpRequest adds Range
  std::string method = "GET";
  bool follows_redirects = true;    // else judge() gets them
  bool is_path_as_is = false;       // "/../" in it is no step upward
  bool may_be_unencrypted = false;  // http for this request, whatever HttpOptions say
  std::string ca_file{};            // certificate authorities; "": the usual ones
  bool reads_error_body = false;    // judge() gets the first 16 KiB of the body, too
};

// A header of an answer by its name, in any case; "" if it is not there.
using HeaderOf = std::function<std::string(const char* name)>;

// An answer of the status 200, 206 or 416.
struct HttpResponse {
  long status = 0;
  UrlIdentity identity;            // its size is that of the whole file
  std::optional<ByteRange> range;  // of a 206, which bytes these are
  std::string linked_sha256;       // what the server says of the whole file; or ""
};

// Any other answer.
struct HttpRefusal {
  std::string url;  // that was asked for
  long status = 0;
  int64_t retry_after_s = 0;  // as the server asked
  std::string redirect_url;   // where a redirect leads that was not followed; ""
  HeaderOf header;            // valid during judge()
  std::string body;           // see reads_error_body
};

// Says why a request failed, and whether another try may do better.
struct HttpFailure {
  std::string why;
  bool may_pass = false;
  bool asks_anew = false;  // at once: the next request() has another address or credentials
  bool is_unknown_host = false;
  bool is_too_slow = false;   // what came does not count as progress
  bool is_overload = false;   // the server wants less: fewer connections, none before the pause
  int64_t retry_after_s = 0;  // the pause lasts so long at least
};

// Thrown where the bytes that are there cannot be continued: the file has changed, or nothing
// proves that it has not. A reader ends with NetworkError, a download starts over.
struct CannotContinue {
  std::string why;
};

// All functions are thread-safe: several readers may share a file.
class RemoteFile {
 public:
  virtual ~RemoteFile() = default;

  // How messages call it; no secret is in it.
  virtual std::string name() const = 0;
  // Equal for two names of one file; without secrets, but with all that tells it from others.
  virtual std::string key() const { return name(); }
  // The next request, made anew for each attempt. `range`: nothing for all of the file.
  // `validator`: of the version that it must be (If-Range, If-Match), or "". May ask servers
  // itself (for credentials), and throw what ends the fetch.
  virtual RemoteRequest request(const std::optional<ByteRange>& range,
                                const std::string& validator) = 0;
  // Corrects what an answer seems to say of the file, before it is used.
  virtual void describe(HttpResponse& /*response*/, const HeaderOf& /*header*/) {}
  // Throws CannotContinue for a file that has changed (412), and whatever else ends the fetch.
  // Answers with asks_anew are taken 8 times in a row without a byte of progress.
  virtual HttpFailure judge(const HttpRefusal& refusal);
  // False if the server is to be asked for the whole file only, as for pages of an API.
  virtual bool has_ranges() const { return true; }
};

// The failure that an answer with this status is by HTTP's own rules.
HttpFailure failure_of_status(long status, int64_t retry_after_s);

// A file of the web. Throws UsageError as check_url().
std::shared_ptr<RemoteFile> make_web_file(const std::string& url, bool allow_http);

}  // namespace weft
