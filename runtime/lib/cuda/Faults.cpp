//===- Faults.cpp - errors that only the device's data show ---------------===//

#include "cuda/Faults.h"

#include <new>
#include <string_view>

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

/// Texts of the kinds of faults, in their order. {a} to {d} stand for the values, {-} for the first one less 1.
constexpr std::string_view kTexts[] = {
    "",
    "expected 'counts' of 0 or more",
    "expected 'counts' of {a} rows in all at most but got {b}",
    "expected 'slots' from -1 to {-} but got {b}",
    "expected each row in 'slots' once at most but got row {a} again",
    "expected 'before' of 1 to {a} passes but got {b}",
    "{a} rows are for the experts of member {b}, whose buffer has room for {c}; compile with a larger --max-load, or "
    "with "
    "--max-load=none for the worst case",
    "{a} rows of tokens are sent, with room for {b}",
    "the result of {a} at {b} does not fit in i32",
    "expected 'step' of 0 or more but got {a}",
    "expected 'ids' from 0 to {-} but got {b} at {c}",
    "expected 'labels' below {a} but got {b} at {c}",
    "expected 'experts' from 0 to {-} but got {b}",
    "expected forced experts from 0 to {-} but got {b}",
    "expected different forced experts of token {a} but got {b} twice",
    "expected 'counts' of 0 or more but got {a}",
    "expected 'shadows' of 0 or 1 but expert {a} has {b}",
    "expected at most {a} shadows, one for each place, but got {b}",
    "there is not enough memory to choose shadows",
    "block_counts holds {a} on member {b}",
    "expert_counts holds {a} on member {b}",
    "block {a} of block_counts adds up to {b} rows, expected at most {c} on member {d}",
    "{a} rows arrived at member {b}, whose buffer has room for {c}; compile with a larger --max-load, or with "
    "--max-load=none for the worst case",
    "block_counts of member {a} and expert_counts of member {b} disagree: expected expert_counts to be the all_to_all "
    "of block_counts",
};
static_assert(std::size(kTexts) == static_cast<size_t>(FaultKind::CountsDisagree) + 1);

static std::string messageOf(const Fault &fault) {
  const auto kind = static_cast<size_t>(fault.kind);
  std::string text(kind < std::size(kTexts) ? kTexts[kind] : "an unknown fault");
  const auto [a, b, c, d] = fault.values;
  for (auto [name, value] :
       {std::pair("{a}", a), std::pair("{b}", b), std::pair("{c}", c), std::pair("{d}", d), std::pair("{-}", a - 1)})
    if (const size_t at = text.find(name); at != std::string::npos)
      text.replace(at, 3, std::to_string(value));
  return text;
}

Status faultStatus(const Fault &fault) {
  const auto kind = static_cast<FaultKind>(fault.kind);
  if (kind == FaultKind::None)
    return {};
  const bool isOverflow = kind == FaultKind::CountsOverflow || kind == FaultKind::LocalOverflow ||
                          kind == FaultKind::SentOverflow || kind == FaultKind::ArrivedOverflow;
  const int32_t code = isOverflow                        ? MOERT_ERROR_OVERFLOW
                       : kind == FaultKind::ShadowMemory ? MOERT_ERROR_OUT_OF_MEMORY
                                                         : MOERT_ERROR_INVALID_ARGUMENT;
  return Status::error(code, "'", kindName(static_cast<Kind>(fault.kernel)), "': ", messageOf(fault));
}

} // namespace moert::cuda
