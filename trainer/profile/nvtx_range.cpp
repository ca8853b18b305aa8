#include "trainer/profile/nvtx_range.h"

#if WEFT_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace weft {

#if WEFT_HAVE_NVTX
bool has_nvtx() { return true; }
NvtxRange::NvtxRange(const std::string& name) { nvtxRangePushA(name.c_str()); }
NvtxRange::~NvtxRange() { nvtxRangePop(); }
#else
bool has_nvtx() { return false; }
NvtxRange::NvtxRange(const std::string& /*name*/) {}
NvtxRange::~NvtxRange() {}  // NOLINT: the class has a destructor where there are ranges
#endif

}  // namespace weft
