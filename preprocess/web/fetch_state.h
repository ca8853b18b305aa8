// Inside of Fetch: its connections, and what they know together. fetch.cpp starts and ends
// requests, fetch_answer.cpp judges what the server says.
#pragma once

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/web/fetch.h"
#include "preprocess/web/http_request.h"

namespace weft {

constexpr int kNoPart = -1;

// Thrown by an answer that is of no use where another kind of request will do: not a failure.
struct AskDifferently {};

using FetchClock = std::chrono::steady_clock;

// One of the connections, and the part of the file that it is fetching.
class Fetch::Connection final : public HttpHandler {
 public:
  Connection(Fetch::State& fetch, const HttpOptions& options)
      : request(*this, options), fetch_(fetch) {}

  void on_response(const HttpResponse& response) override;
  bool on_body(std::string_view bytes) override;

  HttpRequest request;
  int part = kNoPart;         // in the plan
  bool is_running = false;    // libcurl has it
  bool is_cancelled = false;  // another connection gets the whole file
  int64_t position = 0;       // of the next byte of the body in the file
  int64_t begin = 0;          // of what its request asks for
  FetchClock::time_point retry_at{};
  int num_fruitless = 0;            // failures in a row without a byte of progress
  int64_t num_received_before = 0;  // by all connections, at its last failure

 private:
  void on_not_satisfiable(const HttpResponse& response);

  Fetch::State& fetch_;
};

class Fetch::State {
 public:
  State(std::string url, const FetchOptions& options, UrlIdentity& identity, FetchPlan& plan,
        FetchSink& sink);
  ~State();
  void run();
  void wake() { curl_multi_wakeup(multi_.get()); }

 private:
  friend class Connection;
  struct PutBack {
    void operator()(CURLM* multi) const;
  };

  int64_t part_bytes() const;
  int num_connections() const;
  int wait_ms() const;
  void start_connections();
  void start(Connection& connection);
  void stop(Connection& connection);
  bool take_results();
  void resume_paused();
  void end(Connection& connection, CURLcode result);
  bool is_done(const Connection& connection) const;
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

  const std::string url_;
  const FetchOptions& options_;
  UrlIdentity& identity_;
  FetchPlan& plan_;
  FetchSink& sink_;
  std::unique_ptr<CURLM, PutBack> multi_;  // outlives the connections
  std::vector<std::unique_ptr<Connection>> connections_;
  std::string linked_sha256_;
  bool is_known_ = false;       // the server has answered
  bool is_single_ = false;      // one connection for all that is missing
  bool is_whole_only_ = false;  // without a range, from the first byte
  int num_allowed_;             // connections; fewer after 429 and 503
  int num_parts_since_overload_ = 0;
  FetchClock::time_point hold_until_{};
  int64_t num_received_ = 0;  // bytes that were new
  int num_failures_ = 0;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace weft
