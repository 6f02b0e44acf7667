//===- MoeOps.td - all ops of the moe dialect ----------*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEOPS_TD
#define MOE_DIALECT_MOE_IR_MOEOPS_TD

include "moe/Dialect/Moe/IR/MoeLayerOps.td"
include "moe/Dialect/Moe/IR/MoeComputeOps.td"
include "moe/Dialect/Moe/IR/MoeRouteOps.td"
include "moe/Dialect/Moe/IR/MoeCommOps.td"
include "moe/Dialect/Moe/IR/MoeMemoryOps.td"
include "moe/Dialect/Moe/IR/MoeShadowOps.td"
include "moe/Dialect/Moe/IR/MoeDenseOps.td"
include "moe/Dialect/Moe/IR/MoeTrainOps.td"
include "moe/Dialect/Moe/IR/MoeStageOps.td"

#endif // MOE_DIALECT_MOE_IR_MOEOPS_TD
