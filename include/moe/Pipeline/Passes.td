//===- Passes.td - passes that choose by the cost model -*- tablegen -*-===//
#ifndef MOE_PIPELINE_PASSES_TD
#define MOE_PIPELINE_PASSES_TD

include "mlir/Pass/PassBase.td"

def MoeParmAlgorithm1 : Pass<"moe-parm-algorithm1", "::mlir::func::FuncOp"> {
  let summary = "choose S1 or S2 for each layer (Parm, Algorithm 1)";
  let description = [{
    Sets `moe.pause_mp` on the moe.dispatch of each baseline layer: "s1" where t1 (Eq. 13) is not longer than t2 (Eq. 14), from
    the lines of the module's `moe.cluster`, and "s2" else, or where the tokens of a rank cannot be shared out over mp. What it
    found is left in the function's attribute `moe.schedule_choices`. Any other layer stays as it is.

    To run behind moe-partition and before `moe-pause-mp{schedule=chosen}`, which applies the choice.

    Before -> after:

    ```mlir
    %d = moe.dispatch %x, %slots : ..
    // ->
    %d = moe.dispatch %x, %slots {moe.pause_mp = "s1"} : ..
    ```
  }];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

#endif // MOE_PIPELINE_PASSES_TD
