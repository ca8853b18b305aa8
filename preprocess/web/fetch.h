// One file over several connections, in ranged requests, with retries. Where the bytes go is a
// FetchSink's business: into a file (download) or to a reader (url_source).
//
// fetch.cpp starts and ends requests, http_range_reply.cpp judges the server's answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/web/fetch_options.h"
#include "preprocess/web/http_request.h"
#include "preprocess/web/remote_file.h"

namespace weft {

// Called on the thread that runs Fetch::run(); an exception from it ends that.
class FetchSink {
 public:
  // Tells how the server describes the file, before the first byte; again when the size becomes
  // known.
  virtual void on_identity(const UrlIdentity& identity, const std::string& linked_sha256) = 0;
  // Bytes from here on are not wanted yet.
  virtual int64_t window_end() { return ByteRange::kEndless; }
  virtual void write(int64_t offset_bytes, std::string_view bytes) = 0;
  // Several times a second.
  virtual void on_tick() = 0;

 protected:
  ~FetchSink() = default;
};

class Fetch {
 public:
  // Fetches the bytes in `wanted` that the file has. `identity`: of the file whose bytes before
  // them are there; nothing known if there are none. All references must outlive it.
  Fetch(RemoteFile& file, const FetchOptions& options, ByteRange wanted, UrlIdentity& identity,
        FetchSink& sink);
  ~Fetch();

  // Returns when all has come. Retries what may pass: connection trouble, 408, 425, 429, 5xx, with
  // growing pauses, or as long as Retry-After says (10 minutes at most). A server that ignores
  // ranges, or gives nothing to prove that they belong together, gets one connection. Throws
  // NetworkError (URL, cause), CannotContinue, LimitExceeded, and what the file's functions throw.
  void run();

  // From any thread: the window has moved.
  void wake() { curl_multi_wakeup(multi_.get()); }

  // Where what has come without a gap ends, or the file. Not beside run() on another thread.
  int64_t first_missing() const;
  // False if the server was found to give the whole file only. Likewise.
  bool gives_ranges() const { return !is_single_; }
  // Number of bytes before the file's end that are there, also behind a gap. Likewise.
  int64_t num_bytes_held() const;

 private:
  using Clock = std::chrono::steady_clock;

  // Thrown by an answer that is of no use where another kind of request will do: not a failure.
  struct AskDifferently {};
  // One of the connections, and the part of the file that it is fetching.
  struct Connection final : HttpRequest {
    Connection(Fetch& the_fetch, const HttpOptions& options)
        : HttpRequest(the_fetch.file_, options), fetch(the_fetch) {}
    void on_response(const HttpResponse& response) override;
    bool on_body(std::string_view bytes) override;
    void on_not_satisfiable(const HttpResponse& response);
    bool is_done() const { return part->begin >= part->end; }

    Fetch& fetch;
    std::optional<ByteRange> part;  // what is still missing of it
    bool is_running = false;        // libcurl has it
    bool is_cancelled = false;      // another connection gets the whole file
    bool is_whole_file = false;     // the answer is the file from its first byte to its end
    int64_t position = 0;           // of the next byte of the body in the file
    int64_t begin = 0;              // of what its request asks for
    Clock::time_point retry_at{};
    int num_fruitless = 0;            // failures in a row without a byte of progress
    int64_t num_received_before = 0;  // by all connections, at its last failure
    int num_asked_anew = 0;           // in a row without a byte
  };
  struct PutBack {
    void operator()(CURLM* multi) const;
  };

  std::optional<ByteRange> next_part();
  int64_t part_bytes() const;
  int num_connections() const;
  int wait_ms() const;
  void start_connections();
  void start(Connection& connection);
  void stop(Connection& connection);
  bool take_results();
  void resume_paused();
  void end(Connection& connection, CURLcode result);
  void retry_later(Connection& connection, const HttpFailure& failure);
  void hold_back(double seconds);
  void allow_more();

  // True if the answers to come must be of the same file.
  bool has_begun() const { return !identity_.validator().empty() || num_received_ > 0; }
  // The first answer says what the file is.
  void learn(const HttpResponse& response);
  void set_size(int64_t size_bytes);
  // From now on one connection asks for all that is missing in one piece.
  void ask_for_one_piece(Connection& asking);
  [[noreturn]] void refuse_length() const;

  RemoteFile& file_;
  const FetchOptions& options_;
  UrlIdentity& identity_;
  FetchSink& sink_;
  int64_t next_begin_;  // no connection has taken what lies from here to end_
  int64_t end_;         // of what is wanted; lower once the file turns out to end before
  std::unique_ptr<CURLM, PutBack> multi_;  // outlives the connections
  std::vector<std::unique_ptr<Connection>> connections_;
  std::string linked_sha256_;
  bool is_known_ = false;   // the server has answered
  bool is_single_ = false;  // one connection for all that is missing
  bool is_whole_only_;      // without a range, from the first byte
  int num_allowed_;         // connections; fewer after 429 and 503
  int num_parts_since_overload_ = 0;
  Clock::time_point hold_until_{};
  int64_t num_received_ = 0;  // bytes that were new
  int num_failures_ = 0;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace weft
