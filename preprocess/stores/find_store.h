// Which store an address belongs to, and the file at an address of any store or of the web.
#pragma once

#include <memory>
#include <string>

#include "preprocess/stores/remote_store.h"

namespace weft {

// The store that an address belongs to; null if it is of none.
const RemoteStore* find_store(const std::string& address);

// Throws UsageError for an address that is neither of a store nor of the web.
void check_remote_address(const std::string& address, const HttpOptions& options);
// The file at an address of a store or of the web. Throws as check_remote_address().
std::shared_ptr<RemoteFile> open_remote(const std::string& address, const HttpOptions& options);

}  // namespace weft
