// The Hugging Face hub as a store: hf://datasets/OWNER/NAME[@REVISION]/PATH.
#pragma once

#include "preprocess/stores/remote_store.h"

namespace weft {

// Its lister pins branches to the commit that they are at, so all that follows reads one version.
extern const RemoteStore kHubStore;

}  // namespace weft
