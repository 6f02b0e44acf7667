//===- Agreement.h - what all processes of a run must have alike ----------===//
#ifndef MOERT_RUN_AGREEMENT_H
#define MOERT_RUN_AGREEMENT_H

#include "run/Options.h"

namespace moert::run {

/// The options that change what is computed or what processes tell each other, a line "--name: value" each; the options
/// of files say what is in them, because machines may have them in different places. Left out are those of one process
/// alone: --workers, --json, --log, --save, --trace, and where checkpoints and records are written.
std::string agreementText(const Options &options);

/// The SHA-256 of all of a file, and its size. "cannot be read" where that is so: who needs it will say why.
std::string wholeFileText(const std::string &path);
/// The same of a checkpoint (a file, an index or a folder) that may be too large to read: of each .safetensors file its
/// size, its header (as far as 16 MiB), and 64 pieces of 4096 bytes at equal distances; of an index all.
std::string checkpointText(const std::string &path);

} // namespace moert::run

#endif // MOERT_RUN_AGREEMENT_H
