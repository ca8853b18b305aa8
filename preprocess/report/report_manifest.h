// What the data report takes from a dataset's manifest.
#pragma once

#include "preprocess/report/data_report.h"

namespace weft {

// Fills in what the manifest beside `report.prefix` knows; a note says what could not be found out.
void read_manifest(DataReport& report);

}  // namespace weft
