// s3:// and gs:// addresses: objects, folders (all keys with a prefix that ends in a slash) and
// patterns. Versions are told apart when an object is looked at, by its ETag.
#pragma once

#include "preprocess/stores/remote_store.h"

namespace weft {

extern const RemoteStore kS3Store, kGoogleStore;

}  // namespace weft
