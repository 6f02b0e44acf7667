//===- FloatLiteral.h - floats as MLIR reads them ---------------*- C++ -*-===//
#ifndef MOE_SUPPORT_FLOATLITERAL_H
#define MOE_SUPPORT_FLOATLITERAL_H

#include <string>

namespace mlir::moe {

/// The shortest text that reads back as `value`, which is finite, and is a float literal of MLIR: "1.0e9".
std::string getFloatLiteral(double value);

} // namespace mlir::moe

#endif // MOE_SUPPORT_FLOATLITERAL_H
