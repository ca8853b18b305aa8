// The bytes of a file behind an address as tables are read: in ranges, which are fetched when they
// are asked for, or ahead of a reader of rows, which says what it will go through.
#pragma once

#include <atomic>
#include <memory>

#include "preprocess/columnar/table.h"
#include "preprocess/web/url_source.h"

namespace weft {

// `options.expected` says which file it is: another one is a NetworkError. Reading throws as
// read_url_range(). `cancelled` must live as long as this is read itself, not as long as what
// reading_ahead() gives.
std::shared_ptr<const RandomAccess> open_remote_bytes(std::shared_ptr<RemoteFile> file,
                                                      const UrlOptions& options,
                                                      const std::atomic<bool>& cancelled);

}  // namespace weft
