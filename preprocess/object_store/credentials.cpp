#include "preprocess/object_store/credentials.h"

#include <ctime>

namespace weft {
namespace {

constexpr int64_t kRefreshBeforeExpirySeconds = 300;
// A source may go on giving keys that expire soon, or fail: until they do, it is left alone so
// long.
constexpr int64_t kSecondsBetweenRefreshes = 30;
// Requests that were signed with the old keys may still be answered so much later.
constexpr int64_t kSecondsOfOldRequests = 60;

}  // namespace

std::optional<int64_t> parse_utc_time(const std::string& text) {
  std::tm parts{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  // Fractions do not count, and an offset other than zero is not written by anybody.
  while (*rest == '.' || (*rest >= '0' && *rest <= '9')) ++rest;
  const std::string zone(rest);
  if (zone != "Z" && zone != "+00:00" && !zone.empty()) return std::nullopt;
  return ::timegm(&parts);
}

Credentials CachedCredentials::get() {
  const std::lock_guard lock(mutex_);
  const int64_t now = std::time(nullptr);
  if (held_ && (!held_->expires || now < *held_->expires - kRefreshBeforeExpirySeconds))
    return *held_;
  const bool is_good = held_ && now < *held_->expires;
  if (is_good && now - asked_at_ < kSecondsBetweenRefreshes) return *held_;
  asked_at_ = now;
  try {
    held_ = source_();
  } catch (const std::exception&) {
    if (!is_good) throw;
  }
  return *held_;
}

bool CachedCredentials::replace() {
  const std::lock_guard lock(mutex_);
  const int64_t now = std::time(nullptr);
  if (now - replaced_at_ < kSecondsOfOldRequests) return true;
  Credentials fresh = source_();
  const bool is_new = !held_ || fresh.keys.session_token != held_->keys.session_token ||
                      fresh.keys.access_key_id != held_->keys.access_key_id;
  held_ = std::move(fresh);
  if (is_new) replaced_at_ = now;
  return is_new;
}

}  // namespace weft
