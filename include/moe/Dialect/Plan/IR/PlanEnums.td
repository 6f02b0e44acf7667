//===- PlanEnums.td - enums of the plan dialect --------*- tablegen -*-===//
//
// This file is separate from PlanOps.td because mlir-tblgen generates every enum that it sees, and PlanOps.td includes the
// enums of the moe dialect.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_PLAN_IR_PLANENUMS_TD
#define MOE_DIALECT_PLAN_IR_PLANENUMS_TD

include "mlir/IR/EnumAttr.td"

// The numbers are the same as in moert.h.
def Plan_Space : I32EnumAttr<"Space", "memory space of an arena", [
  I32EnumAttrCase<"device", 0>, I32EnumAttrCase<"host_pinned", 1>]> {
  let cppNamespace = "::mlir::plan";
  let genSpecializedAttr = 0;
}

#endif // MOE_DIALECT_PLAN_IR_PLANENUMS_TD
