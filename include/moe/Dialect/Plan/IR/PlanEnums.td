//===- PlanEnums.td - enums of the plan dialect --------*- tablegen -*-===//
//
// Apart from PlanOps.td, which includes the moe dialect's enums: mlir-tblgen generates every enum that it sees.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_PLAN_IR_PLANENUMS_TD
#define MOE_DIALECT_PLAN_IR_PLANENUMS_TD

include "mlir/IR/EnumAttr.td"

// The numbers are those of moert.h.
def Plan_Space : I32EnumAttr<"Space", "memory space of an arena", [
  I32EnumAttrCase<"device", 0>, I32EnumAttrCase<"host_pinned", 1>]> {
  let cppNamespace = "::mlir::plan";
  let genSpecializedAttr = 0;
}

#endif // MOE_DIALECT_PLAN_IR_PLANENUMS_TD
