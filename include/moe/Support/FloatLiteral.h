//===- FloatLiteral.h - floats as MLIR reads them ---------------*- C++ -*-===//
#ifndef MOE_SUPPORT_FLOATLITERAL_H
#define MOE_SUPPORT_FLOATLITERAL_H

#include <string>

namespace mlir::moe {

/// Shortest float literal of MLIR, such as "1.0e9", that reads back as `value`. `value` must be finite.
std::string getFloatLiteral(double value);

} // namespace mlir::moe

#endif // MOE_SUPPORT_FLOATLITERAL_H
