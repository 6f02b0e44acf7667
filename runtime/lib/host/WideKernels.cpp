//===- WideKernels.cpp - 16-bit floats by way of f32 ----------------------===//
//
// Host kernels work on f32 and f64. A call on bf16 or f16 runs on f32 copies of its operands, and changed values are
// rounded back, as on a device that sums in f32 and stores bf16 or f16. This checks plans for devices, and is not fast.
//
//===----------------------------------------------------------------------===//
#include "host/HostBackend.h"
#include "host/Kernels.h"

#include <algorithm>
#include <map>
#include <vector>

namespace moert::host {
namespace {

/// Operands in one place: an output may share the memory of an input.
struct Place {
  View narrow;
  std::vector<float> values;

  View wide() {
    View view = narrow;
    view.dtype = MOERT_F32;
    view.data = values.data();
    return view;
  }
};

Status widen(Place &place) {
  place.values.resize(place.narrow.elements());
  return cast(place.narrow, place.wide());
}

/// Stores only changed values, because others may be reading the values that the call only read.
Status narrow(Place &place) {
  std::vector<uint16_t> rounded(place.values.size());
  View view = place.narrow;
  view.data = rounded.data();
  MOERT_RETURN_IF_ERROR(cast(place.wide(), view));
  auto *stored = place.narrow.as<uint16_t>();
  for (size_t i = 0; i < rounded.size(); ++i)
    if (stored[i] != rounded[i])
      stored[i] = rounded[i];
  return {};
}

bool isNarrowOperand(View view) { return view && isNarrow(view.dtype); }

} // namespace

bool needsWideKernel(const Call &call) {
  return call.kind != Kind::Cast &&
         std::any_of(call.views.begin(), call.views.begin() + call.viewCount, isNarrowOperand);
}

Status launchWideKernel(HostKernels &kernels, const Call &call) {
  std::map<void *, Place> places;
  for (int i = 0; i < call.viewCount; ++i)
    if (View view = call.views[i]; isNarrowOperand(view))
      if (Place &place = places[view.data]; !place.narrow || place.narrow.elements() < view.elements())
        place.narrow = view;
  for (auto &[data, place] : places)
    MOERT_RETURN_IF_ERROR(widen(place));
  Call wide = call;
  for (int i = 0; i < call.viewCount; ++i)
    if (View &view = wide.views[i]; isNarrow(view.dtype)) {
      view.dtype = MOERT_F32;
      view.data = view ? places.at(view.data).values.data() : nullptr;
    }
  MOERT_RETURN_IF_ERROR(launchKernel(kernels, wide));
  for (auto &[data, place] : places)
    MOERT_RETURN_IF_ERROR(narrow(place));
  return {};
}

} // namespace moert::host
