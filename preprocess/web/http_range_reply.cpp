// How Fetch judges a server's answers.
#include <fmt/format.h>

#include <algorithm>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/web/fetch.h"

namespace weft {

void Fetch::learn(const HttpResponse& response) {
  linked_sha256_ = response.linked_sha256;
  if (has_begun()) {
    // A partial answer may leave out what it was asked about.
    identity_.size_bytes = std::max(identity_.size_bytes, response.identity.size_bytes);
  } else {
    identity_ = response.identity;
  }
  is_known_ = true;
  if (identity_.size_bytes >= 0) {
    set_size(identity_.size_bytes);
  } else {
    sink_.on_identity(identity_, linked_sha256_);
  }
}

void Fetch::set_size(int64_t size_bytes) {
  if (size_bytes > options_.max_bytes) refuse_length();
  identity_.size_bytes = size_bytes;
  end_ = std::min(end_, size_bytes);
  for (const auto& connection : connections_) {
    if (auto& part = connection->part) part->end = std::clamp(end_, part->begin, part->end);
  }
  sink_.on_identity(identity_, linked_sha256_);
}

void Fetch::refuse_length() const {
  throw LimitExceeded(
      fmt::format("{}: is longer than the limit of {} bytes", file_.name(), options_.max_bytes));
}

void Fetch::ask_for_one_piece(Connection& asking) {
  is_single_ = true;
  const int64_t begin = first_missing();
  for (const auto& other : connections_) {
    if (other.get() == &asking) continue;
    other->is_cancelled = other->is_running;
    other->part.reset();
  }
  asking.part = ByteRange{begin, end_};
  asking.begin = begin;
  next_begin_ = end_;
}

void Fetch::Connection::on_response(const HttpResponse& response) {
  if (is_cancelled) throw AskDifferently{};
  if (response.status == 416) return on_not_satisfiable(response);
  const bool is_partial = response.status == 206;
  if (fetch.has_begun() && !fetch.identity_.matches(response.identity, is_partial))
    throw CannotContinue{"the file on the server has changed, or may have"};
  if (!is_partial) {
    // The whole file, from its first byte.
    if (!fetch.has_begun() || !fetch.is_known_) fetch.learn(response);
    fetch.ask_for_one_piece(*this);
    is_whole_file = true;
    position = 0;
    return;
  }
  if (fetch.is_whole_only_) throw HttpFailure{"the server sent a part of the file unasked"};
  position = part->begin;
  const bool is_usable = response.range && response.range->begin == position &&
                         response.identity.size_bytes >= response.range->end &&
                         (fetch.has_begun() || !response.identity.validator().empty());
  if (!is_usable) {
    fetch.is_whole_only_ = true;
    fetch.ask_for_one_piece(*this);
    throw AskDifferently{};
  }
  if (!fetch.is_known_ || fetch.identity_.size_bytes < 0) fetch.learn(response);
}

// 416: what was asked for lies behind the end.
void Fetch::Connection::on_not_satisfiable(const HttpResponse& response) {
  if (fetch.is_whole_only_) throw failure_of_status(416, 0);
  if (fetch.has_begun()) throw CannotContinue{"the file on the server is shorter now"};
  const int64_t size_bytes = response.identity.size_bytes;
  if (size_bytes >= 0 && size_bytes <= part->begin)
    return fetch.learn(response);  // nothing is missing
  fetch.is_whole_only_ = true;
  fetch.ask_for_one_piece(*this);
  throw AskDifferently{};
}

bool Fetch::Connection::on_body(std::string_view bytes) {
  if (is_cancelled) throw AskDifferently{};
  ByteRange& missing = *part;
  const auto num_bytes = static_cast<int64_t>(bytes.size());
  // A server that does not know ranges sends again what is there.
  const int64_t num_skipped = std::clamp<int64_t>(missing.begin - position, 0, num_bytes);
  const int64_t num_new = std::min(num_bytes - num_skipped, missing.end - missing.begin);
  if (num_new > 0) {
    if (missing.begin > fetch.options_.max_bytes - num_new) fetch.refuse_length();
    if (missing.begin + num_new > fetch.sink_.window_end()) return false;
    fetch.sink_.write(missing.begin,
                      bytes.substr(static_cast<size_t>(num_skipped), static_cast<size_t>(num_new)));
    missing.begin += num_new;
    fetch.num_received_ += num_new;
    num_asked_anew = 0;
  }
  position += num_bytes;
  if (num_skipped + num_new < num_bytes)
    throw HttpFailure{"the server sent more than was asked for", true};
  return true;
}

}  // namespace weft
