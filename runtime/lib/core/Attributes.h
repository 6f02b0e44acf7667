//===- Attributes.h - the attributes of calls by their names --------------===//
//
// A struct for each call of kernels.def that has attributes: Matmul{.transposeB = 1}.set(call). What is not given is 0.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_ATTRIBUTES_H
#define MOERT_CORE_ATTRIBUTES_H

#include "core/Call.h"

namespace moert::attributes {

#define MOERT_ATTRIBUTES
#include "moert/kernels.inc"

} // namespace moert::attributes

#endif // MOERT_CORE_ATTRIBUTES_H
