// Where temporary keys come from: services of the cloud that the machine runs in, and programs.
// Each returns nothing where it is not set up.
#pragma once

#include <optional>
#include <string>

#include "preprocess/object_store/credentials.h"

namespace weft {

std::optional<Credentials> credentials_of_web_identity();
std::optional<Credentials> credentials_of_container();
std::optional<Credentials> credentials_of_instance();
// What a program prints as credential_process of the AWS CLI; it is run by the shell.
std::optional<Credentials> credentials_of_program(const std::string& command,
                                                  const std::string& source);

// The addresses that a container's credentials may come from: https, this machine, and those of
// ECS and EKS.
bool is_allowed_for_container(const std::string& url);

}  // namespace weft
