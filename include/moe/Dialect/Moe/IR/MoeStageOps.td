//===- MoeStageOps.td - what stages of a pipeline hand over -*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOESTAGEOPS_TD
#define MOE_DIALECT_MOE_IR_MOESTAGEOPS_TD

include "moe/Dialect/Moe/IR/MoeBase.td"

/// One end of a transfer. Not pure: the ends of a channel stay in their order, and none goes without the other.
class Moe_TransferOp<string mnemonic> : Op<Moe_Dialect, mnemonic, [
    MemoryEffects<[MemWrite]>, Moe_SpmdTransfer, DeclareOpInterfaceMethods<MoeCostOpInterface, ["getOpCost", "getCostGroup"]>,
    Moe_Kernel<["getKernelGroup", "getKernelPeer", "isCollective"]>]> {
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::mlir::moe::GroupAttr $cppClass::getKernelGroup() { return getGroup(); }
    std::optional<int64_t> $cppClass::getKernelPeer() { return static_cast<int64_t>(getPeer()); }
    bool $cppClass::isCollective() { return true; }
  }];
}

def Moe_SendOp : Moe_TransferOp<"send"> {
  let summary = "a value for the same place of another stage";
  let description = [{
    Hands `input` to member `peer` of the group, one stage of which each member is; the first moe.send to a member meets its
    first moe.receive of this one, and so on. Made by moe-split-stages, behind moe-differentiate: it has no adjoint, and no
    state is inferred where a value came from elsewhere.

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
  let arguments = (ins Moe_AnyTensor:$input, Moe_GroupAttr:$group, I64Attr:$peer);
  let assemblyFormat = "$input `to` $peer `over` $group attr-dict `:` type($input)";
}

def Moe_ReceiveOp : Moe_TransferOp<"receive"> {
  let summary = "a value of the same place of another stage";
  let description = [{
    What member `peer` sends with moe.send.

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
  let arguments = (ins Moe_GroupAttr:$group, I64Attr:$peer);
  let results = (outs Moe_AnyTensor:$result);
  let assemblyFormat = "`from` $peer `over` $group attr-dict `:` type($result)";
}

#endif // MOE_DIALECT_MOE_IR_MOESTAGEOPS_TD
