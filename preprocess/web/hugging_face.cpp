#include "preprocess/web/hugging_face.h"

#include <algorithm>
#include <fstream>

#include "indexed_dataset/base/process/environment.h"
#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

std::string token_file() {
  const std::string home = environment_text("HOME");
  std::string path = environment_text("HF_TOKEN_PATH");
  if (path.empty()) {
    std::string folder = environment_text("HF_HOME");
    if (folder.empty()) {
      const std::string cache = environment_text("XDG_CACHE_HOME");
      folder = (cache.empty() ? home + "/.cache" : cache) + "/huggingface";
    }
    path = folder + "/token";
  }
  return path.starts_with("~/") ? home + path.substr(1) : path;
}

// Throws for a token that would end its header, or hold another one.
std::string checked_token(std::string token, const std::string& place) {
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (!std::all_of(token.begin(), token.end(), [](unsigned char c) { return c > ' ' && c < 127; }))
    throw UsageError(place + ": holds characters that no token has");
  return token;
}

}  // namespace

std::string hugging_face_endpoint() {
  std::string endpoint = environment_text("HF_ENDPOINT");
  while (endpoint.ends_with('/')) endpoint.pop_back();
  return endpoint.empty() ? "https://huggingface.co" : endpoint;
}

std::string hugging_face_token() {
  if (is_switched_on("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return "";
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (const std::string token = checked_token(environment_text(name), name); !token.empty())
      return token;
  }
  const std::string path = token_file();
  std::string token;
  std::getline(std::ifstream(path), token);
  return checked_token(token, "'" + path + "'");
}

}  // namespace weft
