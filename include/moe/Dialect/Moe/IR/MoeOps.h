//===- MoeOps.h - ops of the moe dialect ------------------------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEOPS_H
#define MOE_DIALECT_MOE_IR_MOEOPS_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeInterfaces.h"

#define GET_OP_CLASSES
#include "moe/Dialect/Moe/IR/MoeOps.h.inc"

#endif // MOE_DIALECT_MOE_IR_MOEOPS_H
