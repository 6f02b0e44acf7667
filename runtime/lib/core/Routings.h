//===- Routings.h - the routing ops of a program ---------------------------===//
#ifndef MOERT_CORE_ROUTINGS_H
#define MOERT_CORE_ROUTINGS_H

#include "core/World.h"

namespace moert {

/// Finds what the program routes in a step, in its order: `entry` is called as rank 0 of no world, so that nothing runs
/// and no memory is needed.
Status listRoutings(const Program &program, const std::vector<Group> &groups, RankProgram entry,
                    std::vector<moert_routing> &routings);

} // namespace moert

#endif // MOERT_CORE_ROUTINGS_H
