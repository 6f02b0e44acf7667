//===- Faults.cpp - errors that only the device's data show ---------------===//

#include "cuda/Faults.h"

#include <new>

namespace moert::cuda {

Status Faults::create(Faults &faults) {
  MOERT_RETURN_IF_ERROR(allocatePinned(sizeof(Fault), "the faults of kernels", faults.memory));
  new (faults.memory.get()) Fault;
  return {};
}

Status Faults::take(int32_t &op) {
  const Fault fault = *cell();
  *cell() = Fault();
  op = fault.op;
  return faultStatus(fault);
}

static std::string messageOf(const Fault &fault) {
  auto text = [](int64_t value) { return std::to_string(value); };
  const std::string a = text(fault.values[0]), b = text(fault.values[1]), c = text(fault.values[2]);
  const std::string beforeFirst = text(fault.values[0] - 1);
  switch (static_cast<FaultKind>(fault.kind)) {
  case FaultKind::None:
    break;
  case FaultKind::CountNegative:
    return "expected 'counts' of 0 or more";
  case FaultKind::CountsOverflow:
    return "expected 'counts' of " + a + " rows in all at most but got " + b;
  case FaultKind::SlotRange:
    return "expected 'slots' from -1 to " + beforeFirst + " but got " + b;
  case FaultKind::SlotTwice:
    return "expected each row in 'slots' once at most but got row " + a + " again";
  case FaultKind::LocalOverflow:
    return a + " rows are for the experts of member " + b + ", whose buffer has room for " + c +
           "; compile with a larger --max-load, or with --max-load=none for the worst case";
  case FaultKind::SentOverflow:
    return a + " rows of tokens are sent, with room for " + b;
  case FaultKind::PassRange:
    return "expected 'before' of 1 to " + a + " passes but got " + b;
  case FaultKind::IndexWide:
    return "the result of " + a + " at " + b + " does not fit in i32";
  case FaultKind::StepNegative:
    return "expected 'step' of 0 or more but got " + a;
  case FaultKind::IdRange:
    return "expected 'ids' from 0 to " + beforeFirst + " but got " + b + " at " + c;
  case FaultKind::LabelRange:
    return "expected 'labels' below " + a + " but got " + b + " at " + c;
  case FaultKind::ExpertRange:
    return "expected 'experts' from 0 to " + beforeFirst + " but got " + b;
  case FaultKind::ForcedRange:
    return "expected forced experts from 0 to " + beforeFirst + " but got " + b;
  case FaultKind::ForcedTwice:
    return "expected different forced experts of token " + a + " but got " + b + " twice";
  case FaultKind::ShadowCount:
    return "expected 'counts' of 0 or more but got " + a;
  case FaultKind::ShadowValue:
    return "expected 'shadows' of 0 or 1 but expert " + a + " has " + b;
  case FaultKind::ShadowRoom:
    return "expected at most " + a + " shadows, one for each place, but got " + b;
  case FaultKind::ShadowMemory:
    return "there is not enough memory to choose shadows";
  }
  return "an unknown fault";
}

Status faultStatus(const Fault &fault) {
  const auto kind = static_cast<FaultKind>(fault.kind);
  if (kind == FaultKind::None)
    return {};
  const bool isOverflow =
      kind == FaultKind::CountsOverflow || kind == FaultKind::LocalOverflow || kind == FaultKind::SentOverflow;
  const int32_t code = isOverflow                        ? MOERT_ERROR_OVERFLOW
                       : kind == FaultKind::ShadowMemory ? MOERT_ERROR_OUT_OF_MEMORY
                                                         : MOERT_ERROR_INVALID_ARGUMENT;
  return Status::error(code, std::string("'") + kindName(static_cast<Kind>(fault.kernel)) + "': " + messageOf(fault));
}

} // namespace moert::cuda
