#include "preprocess/object_store/s3_refusal.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <pugixml.hpp>

#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {
namespace {

constexpr size_t kMaxMessageBytes = 300;

std::string about_clocks(const std::string& server_date) {
  const std::string here =
      fmt::format("{:%a, %d %b %Y %H:%M:%S GMT}", fmt::gmtime(std::time(nullptr)));
  return server_date.empty() ? "this machine's clock says " + here
                             : fmt::format("this machine's clock says {}, the server's {}", here,
                                           escape_for_terminal(server_date));
}

}  // namespace

S3Error parse_s3_error(const std::string& body) {
  pugi::xml_document document;
  // What was read before a fault of the text stays in the document.
  static_cast<void>(document.load_buffer(body.data(), body.size()));
  pugi::xml_node node = document.child("Error");
  if (!node) node = document.child("ErrorResponse").child("Error");  // that of STS
  S3Error error;
  error.code = escape_for_terminal(beginning_of(node.child_value("Code"), 100));
  error.message = escape_for_terminal(beginning_of(node.child_value("Message"), kMaxMessageBytes));
  error.region = checked_region(node.child_value("Region"));
  return error;
}

std::string checked_region(const std::string& name) {
  const bool is_good = name.size() <= 40 &&
                       name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == name.npos;
  return is_good ? name : "";
}

std::string text_of_refusal(const std::string& body) {
  const S3Error error = parse_s3_error(body);
  return error.code.empty() ? "" : fmt::format(": {}: {}", error.code, error.message);
}

std::string advice_for(const S3Error& error, const std::string& source,
                       const std::string& server_date) {
  const std::string& code = error.code;
  if (code == "NoSuchBucket") return "there is no bucket of this name";
  if (code == "NoSuchKey") {
    return "there is no object of this name; a folder is given with a slash at its end, a pattern "
           "with * or ? in it";
  }
  if (code == "AccessDenied" && source.empty())
    return "it is not public; without --s3-unsigned, requests are signed with your keys";
  if (code == "AccessDenied" || code == "AllAccessDisabled") {
    return fmt::format(
        "the keys of {} may not read it: their policy, or the bucket's, lacks s3:GetObject (or "
        "s3:ListBucket, for folders, patterns, and to tell a missing object); a bucket whose "
        "readers pay needs --s3-requester-pays",
        source);
  }
  if (code == "SignatureDoesNotMatch") {
    return fmt::format(
        "the secret key of {} does not belong to its access key, or the clock is wrong ({})",
        source, about_clocks(server_date));
  }
  if (code == "RequestTimeTooSkewed")
    return "set the clock of this machine: " + about_clocks(server_date);
  if (code == "InvalidAccessKeyId")
    return "the store does not know the access key of " + source + ": it may be another store's";
  if (code == "ExpiredToken" || code == "TokenRefreshRequired")
    return "the keys of " + source + " have expired, and it has no newer ones; renew them";
  if (code == "InvalidToken")
    return "the session token of " + source + " does not belong to its keys";
  if (code == "InvalidObjectState") return "it lies in an archive; restore it first";
  return "";
}

}  // namespace weft
