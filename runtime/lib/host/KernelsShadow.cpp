//===- KernelsShadow.cpp - which experts are shadows, and whose choices ----===//
//
// FasterMoE's dynamic shadowing: both kernels count, and moert_shadows_choose decides.
//
//===----------------------------------------------------------------------===//
#include "host/KernelSupport.h"

namespace moert::host {
namespace {

/// Returns places[e], the place of expert e among the shadows, or -1. It is in scratch memory.
const int32_t *placesOfShadows(Checker &check, View shadows, int64_t room) {
  struct Tag;
  const int64_t experts = shadows.dims[1];
  int32_t *places = scratch<Tag, int32_t>(experts);
  int32_t used = 0;
  for (int64_t e = 0; check.ok() && e < experts; ++e) {
    const int32_t value = shadows.as<int32_t>()[e];
    check.that(value == 0 || value == 1, "expected 'shadows' of 0 or 1 but expert ", e, " has ", value);
    places[e] = value ? used++ : -1;
  }
  check.that(used <= room, "expected at most ", room, " shadows, one for each place, but got ", used);
  return places;
}

} // namespace

void chooseShadows(Checker &check, View counts, View shadows, int64_t policy, moert_shadow_costs costs) {
  for (int64_t i = 0; check.ok() && i < counts.elements(); ++i)
    check.that(counts.as<int32_t>()[i] >= 0, "expected 'counts' of 0 or more but got ", counts.as<int32_t>()[i]);
  if (!check.ok())
    return;
  std::fill_n(shadows.as<int32_t>(), shadows.elements(), 0);
  if (counts.elements() == 0 || costs.least < 0)
    return;
  costs.size = sizeof(costs);
  costs.policy = static_cast<uint32_t>(policy);
  const int32_t code =
      moert_shadows_choose(&costs, counts.as<int32_t>(), counts.dims[0], counts.dims[1], shadows.as<int32_t>());
  check.require(MOERT_ERROR_OUT_OF_MEMORY, code == 0, "there is not enough memory to choose shadows");
}

void divideChoices(Checker &check, View experts, View shadows, View slots, View counts, View shadowSlots,
                   View shadowCounts, int64_t chunks, int64_t chunkRows) {
  const int64_t expertCount = shadows.dims[1], room = columnsOf(shadowCounts);
  checkExperts(check, experts, expertCount);
  if (!check.ok())
    return;
  const int32_t *places = placesOfShadows(check, shadows, room), *chosen = experts.as<int32_t>();
  if (!check.ok())
    return;
  const int64_t tokens = experts.dims[0], choices = experts.dims[1];
  auto placeOf = [&](int64_t i) { return places[chosen[i]]; };
  // Choices of shadows lose their rows.
  auto expertOf = [&](int64_t i) { return placeOf(i) < 0 ? chosen[i] : -1; };
  for (int64_t c = 0; c < chunks; ++c)
    fillSlots(slots.as<int32_t>(), counts.as<int32_t>() + c * expertCount, expertCount,
              firstToken(c, chunks, tokens) * choices, firstToken(c + 1, chunks, tokens) * choices, c * chunkRows,
              expertOf);
  fillSlots(shadowSlots.as<int32_t>(), shadowCounts.as<int32_t>(), room, 0, shadowSlots.elements(), 0, placeOf);
}

} // namespace moert::host
