// s3://BUCKET/KEY and gs://BUCKET/KEY as text. The key is the object's own name, with nothing
// encoded in it.
#pragma once

#include <string>

namespace weft {

struct S3Address {
  bool is_google = false;
  std::string bucket;
  std::string key;  // "" for the bucket itself; a folder's ends with a slash

  std::string text() const;  // as it was given
};

// Throws UsageError for a name that no bucket has, and for what is no such address.
S3Address parse_s3_address(const std::string& text);

}  // namespace weft
