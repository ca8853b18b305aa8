// The objects of a bucket: each as a remote file, and their list.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/object_store/s3_bucket.h"

namespace weft {

// Reads one version of an object: each request names the ETag (If-Match), and an object that was
// replaced is CannotContinue.
std::shared_ptr<RemoteFile> make_s3_object(const S3Address& address, const S3Options& options);

struct S3Object {
  std::string key;
  int64_t size_bytes = 0;
};

struct S3ListPage {
  std::vector<S3Object> objects;
  std::string next_token;  // "" on the last page
};

// An answer to list-type=2. Throws NetworkError (`name`) for what is none.
S3ListPage parse_s3_list(std::string_view xml, const std::string& name);

// All objects whose keys begin with `prefix`, without the markers of folders; sorted by the bytes
// of their keys. Throws as read_url().
std::vector<S3Object> list_s3_objects(const S3Address& bucket, const std::string& prefix,
                                      const HttpOptions& options,
                                      const std::atomic<bool>& cancelled);

}  // namespace weft
