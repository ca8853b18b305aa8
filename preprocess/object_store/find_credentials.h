// The keys that requests to a store are signed with, from where AWS's own tools find them, in their
// order [docs.aws.amazon.com/sdkref, "Standardized credential providers"]:
//
//   1  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   2  AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN: exchanged at STS (Kubernetes)
//   3  the profile: keys, or the program of credential_process
//   4  AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI (ECS, EKS)
//   5  the metadata service of EC2, version 2
//
// For gs:// they are the HMAC keys in GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY.
#pragma once

#include "preprocess/object_store/credentials.h"

namespace weft {

// Looks for keys once. Throws UsageError where there are none, or where a source that is set up
// cannot give any; NetworkError where it does not answer.
Credentials find_credentials(bool is_google);

}  // namespace weft
