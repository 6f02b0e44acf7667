//===- Agreement.h - what all processes of a run must have alike ----------===//
#ifndef MOERT_RUN_AGREEMENT_H
#define MOERT_RUN_AGREEMENT_H

#include "run/Options.h"

namespace moert::run {

/// Options that change what is computed or what processes tell each other, one line "--name: value" each. Files are
/// given by their contents, because machines may have them in different places. Options that concern one process alone
/// are not listed: --workers, --json, --log, --save, --trace, and the places of checkpoints and records.
std::string agreementText(const Options &options);

/// SHA-256 of a whole file, and its size; "cannot be read" if the file cannot be read. A later reader reports why.
std::string wholeFileText(const std::string &path);
/// The same for a file that may be too large to read: data, or a checkpoint (a file, an index or a folder). The digest
/// covers the size of each file and 64 pieces of 4096 bytes at equal distances. It also covers the header of a
/// .safetensors file (at most 16 MiB) and all of an index.
std::string sampledText(const std::string &path);

} // namespace moert::run

#endif // MOERT_RUN_AGREEMENT_H
