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
/// The same of what may be too large to read: data, or a checkpoint (a file, an index or a folder). Digested are the
/// size of each file and 64 pieces of it of 4096 bytes, at equal distances; of a .safetensors file also the header (the
/// first 16 MiB of it), and all of an index.
std::string sampledText(const std::string &path);

} // namespace moert::run

#endif // MOERT_RUN_AGREEMENT_H
