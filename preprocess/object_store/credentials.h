// The keys that requests to a store are signed with, and how they are renewed.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "preprocess/object_store/sigv4.h"

namespace weft {

struct Credentials {
  SigningKeys keys;
  std::optional<int64_t> expires;  // seconds since 1970
  std::string source;              // as messages call it
};

// Reads "2026-11-28T05:00:00Z" as seconds since 1970; nothing for any other text.
std::optional<int64_t> parse_utc_time(const std::string& text);

// Keeps what a source gave until shortly before it expires. Thread-safe.
class CachedCredentials {
 public:
  using Source = std::function<Credentials()>;
  explicit CachedCredentials(Source source) : source_(std::move(source)) {}

  // Throws what the source throws; keys that are still good for a while outlive its trouble.
  Credentials get();
  // Asks the source anew since the store says that the keys have expired. False if it has the same
  // ones still.
  bool replace();

 private:
  Source source_;
  std::mutex mutex_;
  std::optional<Credentials> held_;
  int64_t asked_at_ = 0, replaced_at_ = 0;  // seconds since 1970
};

}  // namespace weft
