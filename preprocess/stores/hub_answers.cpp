#include "preprocess/stores/hub_answers.h"

#include <fmt/format.h>

#include <charconv>

#include "indexed_dataset/base/terminal/terminal_text.h"
#include "preprocess/web/hugging_face.h"

namespace weft {
namespace {

// The t of `"resolvers";r=0;t=55`: seconds until requests count from 0 again; 0 without it.
int64_t seconds_of_rate_limit(const std::string& header) {
  const size_t at = header.find(";t=");
  int64_t seconds = 0;
  if (at != header.npos)
    std::from_chars(header.data() + at + 3, header.data() + header.size(), seconds);
  return seconds;
}

std::string how_to_give_a_token() {
  return "a token (HF_TOKEN in the environment, or hf auth login) of an account that may read it";
}

std::string why_of(const HttpRefusal& refusal, const HubAddress& address) {
  const std::string code = refusal.header("X-Error-Code");
  const std::string said = escape_for_terminal(refusal.header("X-Error-Message").substr(0, 200));
  const std::string name = "'" + address.dataset + "' ";
  const bool has_token = !hugging_face_token().empty();
  if (code == "GatedRepo") {
    return name + "is gated: open " + address.page() + ", accept its conditions, and give " +
           (has_token ? "a token of that account: the one that was sent has no access"
                      : how_to_give_a_token());
  }
  if (code == "RevisionNotFound") return name + "has no revision '" + address.revision + "'";
  if (code == "EntryNotFound") {
    return name + "has no '" + address.path + "' at revision " + address.revision +
           "; files are listed at " + address.page() + "/tree/" + address.revision;
  }
  if (refusal.status == 401 && said.find("Invalid credentials") != said.npos)
    return "the hub does not know the token that was sent (HF_TOKEN, or that of hf auth login)";
  if (code == "RepoNotFound" || refusal.status == 401) {
    return name + "does not exist on the hub, or is private: " +
           (has_token ? "the token's account may not read it" : "give " + how_to_give_a_token());
  }
  std::string why = fmt::format("the hub answered {}", refusal.status);
  if (!said.empty()) why += " (" + said + ")";
  if (refusal.status == 429) {
    why += ": too many requests in five minutes";
    if (!has_token) why += "; with " + how_to_give_a_token() + ", more are allowed";
  }
  return why;
}

}  // namespace

HttpFailure judge_hub_answer(const HttpRefusal& refusal, const HubAddress& address) {
  HttpFailure failure = failure_of_status(refusal.status, refusal.retry_after_s);
  failure.why = why_of(refusal, address);
  if (refusal.status != 429) return failure;
  if (const int64_t seconds = seconds_of_rate_limit(refusal.header("RateLimit")); seconds > 0)
    failure.retry_after_s = seconds + 1;
  return failure;
}

}  // namespace weft
