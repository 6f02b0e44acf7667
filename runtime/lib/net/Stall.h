//===- Stall.h - who holds up whom ----------------------------------------===//
//
// Makes the report of a time-out: the collectives in which ranks wait for others, and where those others are.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_NET_STALL_H
#define MOERT_NET_STALL_H

#include "core/Processes.h"

#include <optional>

namespace moert::net {

/// Text of the report. answers[i] says where process i is, and is absent if it did not answer. names[i] is its name.
/// Process i runs rank i.
std::string stallText(const std::vector<std::optional<Whereabouts>> &answers, const std::vector<std::string> &names);

/// "0 to 3, 7".
std::string ranksText(const std::vector<int64_t> &ranks);

/// Writes seconds without trailing zeros: "2", "0.5".
std::string secondsText(double seconds);

/// Encodes whereabouts as the text of a message.
std::string encode(const Whereabouts &whereabouts);
std::optional<Whereabouts> decode(const std::string &text);

} // namespace moert::net

#endif // MOERT_NET_STALL_H
