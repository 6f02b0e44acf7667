//===- Attributes.h - attributes and operands of calls by their names ------===//
//
// Both are generated from kernels.def, whose order they follow.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_ATTRIBUTES_H
#define MOERT_CORE_ATTRIBUTES_H

#include "core/Call.h"

#include <cassert>

/// A struct for each call that has attributes. Matmul{.transposeB = 1}.set(call) sets them, and those that are not
/// given to 0; Matmul::of(call) reads them.
namespace moert::attributes {

#define MOERT_ATTRIBUTES
#include "moert/kernels.inc"

} // namespace moert::attributes

/// Which of a call's views is which operand: call.views[operands::Matmul::a].
namespace moert::operands {

#define MOERT_POSITIONS
#include "moert/kernels.inc"

} // namespace moert::operands

namespace moert {

/// The member of the group that a point-to-point call sends to or receives from.
inline int64_t peerOf(const Call &call) {
  return call.kind == Kind::Send ? attributes::Send::of(call).peer : attributes::Receive::of(call).peer;
}

} // namespace moert

#endif // MOERT_CORE_ATTRIBUTES_H
