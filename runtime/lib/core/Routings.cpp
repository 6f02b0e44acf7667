//===- Routings.cpp - the routing ops of programs --------------------------===//

#include "core/Routings.h"
#include "core/Attributes.h"
#include "core/Listing.h"
#include "core/RoutingBook.h"

#include <algorithm>

namespace moert {

static Status addRouting(const Program &program, const Call &call, std::vector<moert_routing> &routings) {
  if (call.kind != Kind::Route)
    return {};
  const View &logits = call.views[operands::Route::logits], &experts = call.views[operands::Route::experts];
  if (logits.rank != 2 || experts.rank != 2)
    return invalid("expected logits and experts of rank 2");
  auto ops = static_cast<int64_t>(program.ops.size());
  auto before = std::count_if(routings.begin(), routings.end(),
                              [&](const moert_routing &other) { return other.op % ops == call.op; });
  routings.push_back({routingNumber(call.op, before, program.ops.size()), logits.dims[0], logits.dims[1],
                      experts.dims[1], program.firstRank, program.numRanks});
  return {};
}

Status listRoutings(const WorldPrograms &programs, const std::vector<Group> &groups,
                    std::vector<moert_routing> &routings) {
  for (size_t i = 0; i < programs.programs.size(); ++i) {
    const Program &program = programs.programs[i];
    std::vector<moert_routing> found;
    auto visit = [&](const Call &call) { return addRouting(program, call, found); };
    MOERT_RETURN_IF_ERROR(listCalls(program, groups, programs.entries[i], program.firstRank, visit));
    routings.insert(routings.end(), found.begin(), found.end());
  }
  return {};
}

} // namespace moert
