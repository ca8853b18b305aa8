#include "trainer/profile/nvtx_range.h"

#include <nvtx3/nvToolsExt.h>

namespace weft {

bool has_nvtx() { return true; }
NvtxRange::NvtxRange(const std::string& name) { nvtxRangePushA(name.c_str()); }
NvtxRange::~NvtxRange() { nvtxRangePop(); }

}  // namespace weft
