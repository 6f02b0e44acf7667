//===- Observe.h - tells a caller of the calls that ran -------------------===//
#ifndef MOERT_VERIFY_OBSERVE_H
#define MOERT_VERIFY_OBSERVE_H

#include "core/Instrument.h"

#include <mutex>

namespace moert::verify {

/// Forgets what memory of a call's outputs held. Rows that a ragged call does not use would keep the values of an
/// earlier call, and the observer would take them for results.
void forgetOutputs(const Call &call);

class Observer {
public:
  explicit Observer(const VerifyModes &modes) : observe(modes.observe), context(modes.observeContext) {}

  explicit operator bool() const { return observe != nullptr; }
  /// See moert_observe.
  void tell(std::span<const Call *const> calls);

private:
  const moert_observe observe;
  void *const context;
  std::mutex mutex;
};

} // namespace moert::verify

#endif // MOERT_VERIFY_OBSERVE_H
