// Compares the blends of a checkpoint with those of the run that goes on from it. A file such as
// that of --data-args-path may have kept its name while its content was changed, so the blends
// themselves are compared, and their datasets by their bytes, wherever these lie.
#pragma once

#include "trainer/config/config.h"
#include "trainer/identity/data_identity.h"

namespace weft {

// `config` is that of the run that goes on, and `num_begun` the number of training samples that
// were begun before the checkpoint. `allowed` are changed blends of training and of evaluations,
// and changes of --blend-schedule after those samples, which move none of them. `refused` is a
// schedule that was changed before their end, where some samples would come twice and others not at
// all: also one whose "from_tokens" means another sample since --seq-length changed.
// `saved_arguments` is a JSON object of the checkpoint's arguments.
DataDifferences compare_blends(const DataIdentity& saved, const std::string& saved_arguments,
                               const DataIdentity& ours, int64_t num_begun, const Config& config);

}  // namespace weft
