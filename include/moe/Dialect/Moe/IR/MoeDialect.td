//===- MoeDialect.td - the moe dialect -----------------*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEDIALECT_TD
#define MOE_DIALECT_MOE_IR_MOEDIALECT_TD

include "mlir/IR/OpBase.td"

def Moe_Dialect : Dialect {
  let name = "moe";
  let cppNamespace = "::mlir::moe";
  let summary = "Mixture-of-Experts model graphs and their SPMD programs";
  let description = [{
    Two levels in one dialect. *L0* is the model graph: one logical program on global tensors (`moe.layer`, `moe.add`).
    *L1* is the SPMD program: one program for every rank, on per-rank shapes, with collectives on `#moe.group`s.
    `moe-partition` goes from L0 to L1; schedules rewrite L1 forward programs; `moe-differentiate` derives the backward.

    Every L1 value is, for each group of ranks, *replicated* (all members hold the same value) or *varying*. Each op says
    through `MoeSpmdOpInterface` which states it takes and gives.

    A program computes in one floating-point type. Where that has 16 bits (bf16, f16), routing from the logits on, sums over a row,
    the logarithms of softmax's sums and losses are of its *accumulator type*, f32, as the op of each says. The accumulator
    type of f32 and f64 is the type itself. `moe.cast` goes from one type to the other.

    Discardable attributes: `moe.parallel` (a `#moe.parallel`) on the module; on arguments and results of functions
    `moe.layout` (a `#moe.layout`), `moe.name` (the tensor's name in files and reports), `moe.role` ("input", "parameter",
    "cotangent", "output", "gradient").
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

#endif // MOE_DIALECT_MOE_IR_MOEDIALECT_TD
