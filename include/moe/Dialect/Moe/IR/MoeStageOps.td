//===- MoeStageOps.td - transfers between stages of a pipeline -*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOESTAGEOPS_TD
#define MOE_DIALECT_MOE_IR_MOESTAGEOPS_TD

include "mlir/IR/SymbolInterfaces.td"
include "moe/Dialect/Moe/IR/MoeBase.td"

/// One end of a transfer. It is not pure: the transfers of a channel must stay in their order, and no end may be removed
/// without the other.
class Moe_TransferOp<string mnemonic> : Op<Moe_Dialect, mnemonic, [
    MemoryEffects<[MemWrite]>, Moe_SpmdTransfer, DeclareOpInterfaceMethods<MoeCostOpInterface, ["getOpCost", "getCostGroup"]>,
    Moe_Kernel<["getKernelGroup", "getKernelPeer", "isCollective"]>]> {
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::mlir::moe::GroupAttr $cppClass::getKernelGroup() { return getGroup(); }
    /// A pair of neighbouring members. The program defines which ones transfer.
    ::mlir::moe::GroupAttr $cppClass::getCostGroup() {
      return GroupAttr::get(getContext(), getGroup().getName(), 2, getGroup().getStride());
    }
    ::llvm::LogicalResult $cppClass::inferSpmd(const SpmdAxes &, ArrayRef<AxisSet>, SmallVectorImpl<AxisSet> &,
                                               SmallVectorImpl<AxisSet> &) {
      return emitOpError()
             << "expected a program that is not yet divided into stages; infer its states before moe-split-stages";
    }
    std::optional<int64_t> $cppClass::getKernelPeer() { return getPeer(); }
    bool $cppClass::isCollective() { return true; }
  }];
}

def Moe_SendOp : Moe_TransferOp<"send"> {
  let summary = "sends a value to the same place in another stage";
  let description = [{
    Sends `input` to member `peer` of the group. Each member of the group is one stage. The first moe.send to a member
    meets that member's first moe.receive from this member, and so on.

    moe-split-stages makes this op, after moe-differentiate. So it has no adjoint. No SPMD state is inferred for a value
    that comes from another stage.

    Constraints:
    - (C1) 0 <= peer < the group's size.

    Example:

    ```mlir
    func.func @send(%x: tensor<4x8xf32>) {
      moe.send %x to 1 over <"pp", 2, 4> : tensor<4x8xf32>
      return
    }
    ```
  }];
  let arguments = (ins Moe_AnyTensor:$input, Moe_GroupAttr:$group, Moe_Int:$peer);
  let assemblyFormat = "$input `to` $peer `over` $group attr-dict `:` type($input)";
}

def Moe_ReceiveOp : Moe_TransferOp<"receive"> {
  let summary = "receives a value from the same place in another stage";
  let description = [{
    `result` is the value that member `peer` sends with moe.send.

    Constraints:
    - (C1) 0 <= peer < the group's size.

    Example:

    ```mlir
    func.func @receive() -> tensor<4x8xf32> {
      %0 = moe.receive from 0 over <"pp", 2, 4> : tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Moe_GroupAttr:$group, Moe_Int:$peer);
  let results = (outs Moe_AnyTensor:$result);
  let assemblyFormat = "`from` $peer `over` $group attr-dict `:` type($result)";
}

def Moe_RepeatOp : Op<Moe_Dialect, "repeat", [
    AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a function as often as the routing demands";
  let description = [{
    Calls `program` `times[0]` times, at most `most` times, with the arguments `carried` and then `inputs`. Its results
    take the place of `carried` in the next call. The results of the op are those of the last call, or `carried` if there
    is none. All ranks that meet in `program` have the same `times`.

    moe-outline-passes makes this op, after moe-differentiate. So it has no adjoint and no SPMD state.

    `divided` are the numbers of arguments of which `program` takes parts as views.

    Constraints:
    - (C1) most >= 1; times is [1].
    - (C2) program is a function of the types of carried and inputs, whose results have the types of carried.

    Example:

    ```mlir
    func.func private @double(%x: tensor<4xf32> {moe.name = "carried0"}) -> (tensor<4xf32> {moe.updates = "carried0"})
        attributes {plan.subprogram} {
      %0 = moe.add %x, %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    func.func @repeat(%n: tensor<1xi32>, %x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = moe.repeat @double %n of 3 carried(%x) inputs() : (tensor<1xi32>, tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$program, Moe_Index1D:$times, Moe_Int:$most, Variadic<Moe_AnyTensor>:$carried,
                       Variadic<Moe_AnyTensor>:$inputs, OptionalAttr<DenseI64ArrayAttr>:$divided);
  let results = (outs Variadic<Moe_AnyTensor>:$results);
  let assemblyFormat = [{
    $program $times `of` $most `carried` `(` $carried `)` `inputs` `(` $inputs `)` attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // MOE_DIALECT_MOE_IR_MOESTAGEOPS_TD
