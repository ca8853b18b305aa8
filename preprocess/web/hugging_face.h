// Where the Hugging Face hub is, and with which token it is asked, as huggingface_hub finds them.
#pragma once

#include <string>

namespace weft {

// HF_ENDPOINT (a mirror), else https://huggingface.co; without a slash at its end.
std::string hugging_face_endpoint();

// HF_TOKEN, else HUGGING_FACE_HUB_TOKEN, else what `hf auth login` has left: the file
// HF_TOKEN_PATH, else token in HF_HOME, else in $XDG_CACHE_HOME/huggingface or
// ~/.cache/huggingface. "" without one, and with HF_HUB_DISABLE_IMPLICIT_TOKEN. Throws UsageError,
// which does not show it, for characters that no token has.
std::string hugging_face_token();

}  // namespace weft
