//===- Stall.h - who holds up whom ----------------------------------------===//
//
// The report of a time-out needs it: who waits in which collective for whom, and where those are.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_NET_STALL_H
#define MOERT_NET_STALL_H

#include "core/Processes.h"

#include <optional>

namespace moert::net {

/// The report, for people. answers[i] is where process i said that it is, absent where it did not answer; names[i] is
/// its name. Process i runs rank i.
std::string stallText(const std::vector<std::optional<Whereabouts>> &answers, const std::vector<std::string> &names);

/// "0 to 3, 7".
std::string ranksText(const std::vector<int64_t> &ranks);

/// Without zeros that say nothing: "2", "0.5".
std::string secondsText(double seconds);

/// As bytes of a message.
std::string encode(const Whereabouts &whereabouts);
std::optional<Whereabouts> decode(const std::string &text);

} // namespace moert::net

#endif // MOERT_NET_STALL_H
