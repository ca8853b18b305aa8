// The objects of a bucket: each as a remote file, and their list.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/object_store/s3_bucket.h"

namespace weft {

// Reads one version of an object: each request names the ETag (If-Match), and an object that was
// replaced is CannotContinue.
std::shared_ptr<RemoteFile> make_s3_object(const S3Address& address, const S3Options& options);

struct S3ListPage {
  std::vector<std::string> keys;
  std::string next_token;  // "" on the last page
};

// An answer to list-type=2 with this prefix. Throws NetworkError (`name`) for what is none: a key
// without the prefix, and a page that is not the last one and does not say how to go on.
S3ListPage parse_s3_list(std::string_view xml, const std::string& prefix, const std::string& name);

// All keys that begin with `prefix`, without the markers of folders; sorted by their bytes. Throws
// as parse_s3_list() and read_url().
std::vector<std::string> list_s3_keys(const S3Address& bucket, const std::string& prefix,
                                      const HttpOptions& options,
                                      const std::atomic<bool>& cancelled);

}  // namespace weft
