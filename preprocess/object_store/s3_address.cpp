#include "preprocess/object_store/s3_address.h"

#include <algorithm>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {
namespace {

// The rules of S3 and of other stores together; it becomes part of a host's name or of a path.
bool is_bucket_name(const std::string& name) {
  return name.size() >= 3 && name.size() <= 222 && name.front() != '.' && name.back() != '.' &&
         name.find("..") == name.npos && std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return c < 128 && (std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_');
         });
}

}  // namespace

std::string S3Address::text() const { return (is_google ? "gs://" : "s3://") + bucket + "/" + key; }

S3Address parse_s3_address(const std::string& text) {
  S3Address address;
  address.is_google = text.starts_with("gs://");
  if (!address.is_google && !text.starts_with("s3://"))
    throw UsageError("'" + escape_for_terminal(text) + "': not an s3:// or gs:// address");
  const std::string rest = text.substr(5);
  const size_t slash = std::min(rest.find('/'), rest.size());
  address.bucket = rest.substr(0, slash);
  address.key = rest.substr(std::min(slash + 1, rest.size()));
  if (!is_bucket_name(address.bucket)) {
    throw UsageError("'" + escape_for_terminal(text) + "': '" +
                     escape_for_terminal(address.bucket) +
                     "' is no name of a bucket; give s3://BUCKET/KEY");
  }
  if (address.key.size() > 1024 || address.key.find('\0') != address.key.npos)
    throw UsageError("'" + escape_for_terminal(text) + "': no object has such a key");
  return address;
}

}  // namespace weft
