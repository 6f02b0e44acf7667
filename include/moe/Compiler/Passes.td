//===- Passes.td - passes that choose by the cost model -*- tablegen -*-===//
#ifndef MOE_COMPILER_PASSES_TD
#define MOE_COMPILER_PASSES_TD

include "mlir/Pass/PassBase.td"

def MoeParmAlgorithm1 : Pass<"moe-parm-algorithm1", "::mlir::func::FuncOp"> {
  let summary = "choose S1 or S2 for each layer (Parm, Algorithm 1)";
  let description = [{
    Sets `moe.pause_mp` on the moe.dispatch of each baseline layer. It is "s1" if t1 (Eq. 13) is not longer than t2 (Eq.
    14), and otherwise "s2". It is also "s2" if the tokens of a rank cannot be shared out over mp. Both times come from
    the lines of the module's `moe.cluster`. The function's attribute `moe.schedule_choices` holds the figures of each
    choice. Layers that are not baseline layers stay as they are.

    The pass runs after moe-partition and before `moe-pause-mp{schedule=chosen}`, which applies the choice.

    Before -> after:

    ```mlir
    %d = moe.dispatch %x, %slots : ..
    // ->
    %d = moe.dispatch %x, %slots {moe.pause_mp = "s1"} : ..
    ```
  }];
  let options = [
    ListOption<"given", "given", "std::string", "Choice for each baseline layer, s1 or s2, in place of the shorter one">];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

def MoePriceOps : Pass<"moe-price-ops", "::mlir::func::FuncOp"> {
  let summary = "how long each op takes, by the cost model of a cluster";
  let description = [{
    Sets `moe.seconds` on each op that has a cost, with tokens that choose experts evenly. Computation has the speed that
    it has beside an exchange, and an exchange that beside computation. `moe-order-micro-batches` reads and removes it. An op whose time the cluster does not tell
    stays without: then the rates of `moe.cluster` say how long it takes.

    Before -> after:

    ```mlir
    %y = moe.matmul %x, %w : ..
    // ->
    %y = moe.matmul %x, %w {moe.seconds = 4.0e-4 : f64} : ..
    ```
  }];
  let options = [Option<"cluster", "cluster", "std::string", /*default=*/"", "Path of the cluster profile">];
  let dependentDialects = ["::mlir::moe::MoeDialect"];
}

#endif // MOE_COMPILER_PASSES_TD
