// Options of commands that read s3:// and gs:// addresses.
#pragma once

#include "indexed_dataset/base/terminal/option_set.h"
#include "preprocess/web/fetch_options.h"

namespace weft {

void declare_store_options(OptionSet& options, S3Options& s3);
void validate_store_options(OptionSet& options, const S3Options& s3);

}  // namespace weft
