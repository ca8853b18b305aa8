#include "preprocess/stores/find_store.h"

#include <algorithm>
#include <array>

#include "preprocess/stores/hub_store.h"
#include "preprocess/stores/s3_store.h"

namespace weft {
namespace {

const std::array kStores{&kHubStore, &kS3Store, &kGoogleStore};

}  // namespace

const RemoteStore* find_store(const std::string& address) {
  const auto found = std::find_if(kStores.begin(), kStores.end(), [&](const RemoteStore* store) {
    return address.starts_with(std::string(store->scheme) + "://");
  });
  return found == kStores.end() ? nullptr : *found;
}

void check_remote_address(const std::string& address, const HttpOptions& options) {
  if (const RemoteStore* store = find_store(address)) return store->check(address);
  check_url(address, options.allow_http);
}

std::shared_ptr<RemoteFile> open_remote(const std::string& address, const HttpOptions& options) {
  if (const RemoteStore* store = find_store(address)) return store->open(address, options);
  return make_web_file(address, options.allow_http);
}

}  // namespace weft
