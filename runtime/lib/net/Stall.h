//===- Stall.h - who holds up whom ----------------------------------------===//
#ifndef MOERT_NET_STALL_H
#define MOERT_NET_STALL_H

#include "core/Processes.h"

#include <optional>

namespace moert::net {

/// What the processes said of where they are, process i runs rank i; absent where one did not answer. For people: who
/// waits in which collective for whom, and what those do.
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
