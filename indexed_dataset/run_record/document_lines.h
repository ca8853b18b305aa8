// Reads which documents of a run a line of an --unsee file names (unseen_documents.h has the
// forms).
#pragma once

#include <string_view>

#include "indexed_dataset/run_record/named_documents.h"

namespace weft {

// Adds them to `documents`; blank lines and comments name none. Throws as NamedDocuments, and
// std::invalid_argument for any other line, and for an object whose document came from another line
// of the corpus than it says: then the number is of another dataset.
void add_documents_of_line(std::string_view line, NamedDocuments& documents);

}  // namespace weft
