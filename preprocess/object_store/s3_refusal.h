// What a store says, in XML, where it does not give the file.
#pragma once

#include <string>

namespace weft {

struct S3Error {
  std::string code;     // "NoSuchKey"; "" where the body is no such error
  std::string message;  // as the store words it, safe to show
  std::string region;   // where the bucket is, if the store says so
};

// A body that was cut off gives what it has before its end.
S3Error parse_s3_error(const std::string& body);

// `name` if it may be that of a region, which becomes part of addresses; else "".
std::string checked_region(const std::string& name);

// ": CODE: MESSAGE", or "".
std::string text_of_refusal(const std::string& body);

// Why a request was refused, and what the user can do about it, by the store's code; "" for codes
// that need no advice. `source`: of the keys, "" for a request without any. `server_date`: the
// answer's Date.
std::string advice_for(const S3Error& error, const std::string& source,
                       const std::string& server_date);

}  // namespace weft
