//===- MoeDialect.td - the moe dialect -----------------*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEDIALECT_TD
#define MOE_DIALECT_MOE_IR_MOEDIALECT_TD

include "mlir/IR/OpBase.td"

def Moe_Dialect : Dialect {
  let name = "moe";
  let cppNamespace = "::mlir::moe";
  let summary = "Mixture-of-Experts model graphs and their SPMD programs";
  let description = [{
    The dialect has two levels. *L0* is the model graph: one logical program on global tensors (`moe.layer`, `moe.add`).
    *L1* is the SPMD program: one program for every rank, on the shapes of a rank, with collectives on `#moe.group`s.
    `moe-partition` goes from L0 to L1. Schedules rewrite L1 forward programs. `moe-differentiate` derives the backward.
    docs/Glossary.md explains the terms.

    For each group of ranks an L1 value is *replicated* (all members hold the same value) or *varying*. Each op says
    through `MoeSpmdOpInterface` which states it takes and gives.

    A program computes in one floating-point type. Each such type has an *accumulator type*: f32 for bf16 and f16, and the
    type itself for f32 and f64. Routing (from the logits on), sums over a row, the logarithms of softmax's sums and
    losses are of the accumulator type. The description of each op says so. `moe.cast` goes from one type to the other.

    Discardable attributes: `moe.parallel` (a `#moe.parallel`) on the module. Arguments and results of functions have:

    - `moe.layout` (a `#moe.layout`);
    - `moe.name`, the tensor's name in files and reports;
    - `moe.role`: "input", "parameter", "cotangent", "output", "gradient", "loss", "metric", "step", "state", "rate" or
      "update".
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

#endif // MOE_DIALECT_MOE_IR_MOEDIALECT_TD
