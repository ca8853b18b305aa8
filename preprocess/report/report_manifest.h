// Takes from a dataset's manifest what the data report needs.
#pragma once

#include "preprocess/report/data_report.h"

namespace weft {

// Fills in what the manifest beside `report.prefix` says. A note tells what could not be found out.
void read_manifest(DataReport& report);

}  // namespace weft
