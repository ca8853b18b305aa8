// How the Hugging Face hub says no, in words that help.
#pragma once

#include "preprocess/stores/hub_address.h"
#include "preprocess/web/remote_file.h"

namespace weft {

// What an answer of the hub itself (not of the storage it sends to) means for the dataset of
// `address`: gated, missing or private, a revision or a file that is not there, too many requests.
HttpFailure judge_hub_answer(const HttpRefusal& refusal, const HubAddress& address);

}  // namespace weft
