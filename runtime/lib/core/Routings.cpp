//===- Routings.cpp - the routing ops of programs --------------------------===//

#include "core/Routings.h"
#include "core/Attributes.h"
#include "core/Listing.h"

#include <algorithm>

namespace moert {

static Status addRouting(const Program &program, const Call &call, std::vector<moert_routing> &routings) {
  if (call.kind != Kind::Route)
    return {};
  const View &logits = call.views[operands::Route::logits], &experts = call.views[operands::Route::experts];
  if (logits.rank != 2 || experts.rank != 2)
    return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "expected logits and experts of rank 2");
  auto isSame = [&](const moert_routing &other) { return other.op == call.op; };
  if (std::any_of(routings.begin(), routings.end(), isSame))
    return Status::error(MOERT_ERROR_UNSUPPORTED, "expected each routing op once in a step");
  routings.push_back({call.op, logits.dims[0], logits.dims[1], experts.dims[1], program.firstRank, program.numRanks});
  return {};
}

Status listRoutings(const WorldPrograms &programs, const std::vector<Group> &groups,
                    std::vector<moert_routing> &routings) {
  for (size_t i = 0; i < programs.programs.size(); ++i) {
    const Program &program = programs.programs[i];
    std::vector<moert_routing> found;
    auto visit = [&](const Call &call) { return addRouting(program, call, found); };
    if (Status status = listCalls(program, groups, programs.entries[i], program.firstRank, visit); !status.ok())
      return status;
    routings.insert(routings.end(), found.begin(), found.end());
  }
  return {};
}

} // namespace moert
