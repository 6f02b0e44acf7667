//===- Routings.h - the routing ops of programs ----------------------------===//
#ifndef MOERT_CORE_ROUTINGS_H
#define MOERT_CORE_ROUTINGS_H

#include "core/World.h"

namespace moert {

/// Lists the routing calls of a step, program by program and in their order. Nothing runs.
Status listRoutings(const WorldPrograms &programs, const std::vector<Group> &groups,
                    std::vector<moert_routing> &routings);

} // namespace moert

#endif // MOERT_CORE_ROUTINGS_H
