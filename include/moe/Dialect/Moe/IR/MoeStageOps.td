//===- MoeStageOps.td - transfers between stages of a pipeline -*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOESTAGEOPS_TD
#define MOE_DIALECT_MOE_IR_MOESTAGEOPS_TD

include "moe/Dialect/Moe/IR/MoeBase.td"

/// One end of a transfer. It is not pure: the transfers of a channel must stay in their order, and no end may be removed
/// without the other.
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
  let arguments = (ins Moe_AnyTensor:$input, Moe_GroupAttr:$group, I64Attr:$peer);
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
  let arguments = (ins Moe_GroupAttr:$group, I64Attr:$peer);
  let results = (outs Moe_AnyTensor:$result);
  let assemblyFormat = "`from` $peer `over` $group attr-dict `:` type($result)";
}

#endif // MOE_DIALECT_MOE_IR_MOESTAGEOPS_TD
