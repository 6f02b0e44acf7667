//===- Attributes.h - attributes and operands of calls by their names ------===//
//
// Both are generated from kernels.def and follow its order.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_ATTRIBUTES_H
#define MOERT_CORE_ATTRIBUTES_H

#include "core/Call.h"

#include <cassert>

/// Has a struct for each call with attributes. Matmul{.transposeB = 1}.set(call) sets all of them, those that are not
/// given to 0. Matmul::of(call) reads them.
namespace moert::attributes {

#define MOERT_ATTRIBUTES
#include "moert/kernels.inc"

} // namespace moert::attributes

/// Indices of operands among a call's views: call.views[operands::Matmul::a].
namespace moert::operands {

#define MOERT_POSITIONS
#include "moert/kernels.inc"

} // namespace moert::operands

namespace moert {

/// Member of the group that a point-to-point call sends to or receives from.
inline int64_t peerOf(const Call &call) {
  return call.kind == Kind::Send ? attributes::Send::of(call).peer : attributes::Receive::of(call).peer;
}

} // namespace moert

#endif // MOERT_CORE_ATTRIBUTES_H
