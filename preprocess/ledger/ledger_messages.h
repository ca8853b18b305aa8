// Requests, replies and the journal's progress as bytes: integers as 8 bytes little-endian, strings
// and lists with their length in front, in the order of ledger_link.h.
//
// The reading side believes nothing: every length is checked against the bytes that are left before
// anything is allocated, and bytes left over are an error.
#pragma once

#include <string>
#include <string_view>

#include "preprocess/ledger/ledger_link.h"

namespace weft {

std::string to_message(const LedgerRequest& request);
std::string to_message(const LedgerReply& reply);
std::string to_message(const RunFailure& failure);
std::string to_message(const LedgerRequest::Durable& durable);

// Throw std::domain_error for anything that to_message cannot have made.
LedgerRequest ledger_request_from(std::string_view message);
LedgerReply ledger_reply_from(std::string_view message);
RunFailure run_failure_from(std::string_view message);
LedgerRequest::Durable durable_from(std::string_view message);

}  // namespace weft
