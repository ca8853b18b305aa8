// A file of a dataset on the Hugging Face hub. The hub is asked once where it lies, and ranges are
// then read from that address, until it expires: the hub counts requests, its storage does not.
//
//   hf://datasets/O/N@COMMIT/PATH -> HUB/datasets/O/N/resolve/COMMIT/PATH -> 302 STORAGE?signature
//                                                     ^-------- 403: it has expired -----'
#pragma once

#include <mutex>

#include "preprocess/stores/hub_address.h"
#include "preprocess/web/fetch_options.h"
#include "preprocess/web/remote_file.h"

namespace weft {

class HubFile final : public RemoteFile {
 public:
  // Throws UsageError.
  HubFile(std::string address, const HttpOptions& options);

  std::string name() const override { return address_; }
  RemoteRequest request(const std::optional<ByteRange>& range,
                        const std::string& validator) override;
  void describe(HttpResponse& response, const HeaderOf& header) override;
  HttpFailure judge(const HttpRefusal& refusal) override;

 private:
  HttpFailure go_to(const HttpRefusal& refusal);
  void learn_etag(const std::string& linked_etag);

  const std::string address_;
  const HubAddress parsed_;
  const std::string resolve_url_;
  std::mutex mutex_;
  std::string url_;      // where the next request goes; guarded by mutex_, as are the next two
  std::string refusal_;  // what the storage said last; ""
  std::string etag_;     // of the file whatever storage it lies in, as the hub says it; or ""
};

}  // namespace weft
