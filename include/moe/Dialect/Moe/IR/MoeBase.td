//===- MoeBase.td - what op definitions share ----------*- tablegen -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEBASE_TD
#define MOE_DIALECT_MOE_IR_MOEBASE_TD

include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "moe/Dialect/Moe/IR/MoeAttrs.td"
include "moe/Dialect/Moe/IR/MoeInterfaces.td"

// Shapes are static: plans are captured and their memory bounded.
class Moe_StaticTensor<list<Type> types, string summary>
    : ConfinedType<StaticShapeTensorOf<types>, [], summary, "::mlir::RankedTensorType">;
class Moe_RankedTensor<list<Type> types, list<int> ranks, string summary>
    : ConfinedType<StaticShapeTensorOf<types>, [HasAnyRankOfPred<ranks>], summary, "::mlir::RankedTensorType">;

def Moe_Tensor : Moe_StaticTensor<[F32, F64, BF16], "static tensor of f32, f64 or bf16">;
def Moe_AnyTensor : Moe_StaticTensor<[F32, F64, BF16, I32], "static tensor of f32, f64, bf16 or i32">;
def Moe_Scalar : Moe_RankedTensor<[F32, F64, BF16], [0], "0-D tensor of f32, f64 or bf16">;
def Moe_Tensor1D : Moe_RankedTensor<[F32, F64, BF16], [1], "1-D tensor of f32, f64 or bf16">;
def Moe_Tensor2D : Moe_RankedTensor<[F32, F64, BF16], [2], "2-D tensor of f32, f64 or bf16">;
def Moe_Tensor3D : Moe_RankedTensor<[F32, F64, BF16], [3], "3-D tensor of f32, f64 or bf16">;
def Moe_Rows : Moe_RankedTensor<[F32, F64, BF16], [2, 3], "rows, a 2-D or 3-D tensor of f32, f64 or bf16">;
def Moe_Index0D : Moe_RankedTensor<[I32], [0], "0-D tensor of i32">;
def Moe_Index1D : Moe_RankedTensor<[I32], [1], "1-D tensor of i32">;
def Moe_IndexTensor : Moe_StaticTensor<[I32], "static tensor of i32">;
def Moe_Index2D : Moe_RankedTensor<[I32], [2], "2-D tensor of i32">;

class Moe_Op<string mnemonic, list<Trait> traits = []> : Op<Moe_Dialect, mnemonic, !listconcat([Pure], traits)>;

/// How an L1 op differs from the interfaces' defaults is listed op by op.
defvar Moe_Spmd = DeclareOpInterfaceMethods<MoeSpmdOpInterface>;
defvar Moe_SpmdOwn = DeclareOpInterfaceMethods<MoeSpmdOpInterface, ["inferSpmd"]>;
defvar Moe_Differentiable = DeclareOpInterfaceMethods<MoeDifferentiableOpInterface>;
defvar Moe_Splittable = DeclareOpInterfaceMethods<MoeSplittableOpInterface>;
defvar Moe_Rowwise = DeclareOpInterfaceMethods<MoeRowwiseOpInterface>;
defvar Moe_Chunkable = DeclareOpInterfaceMethods<MoeChunkableOpInterface>;
defvar Moe_ChunkableOwn = DeclareOpInterfaceMethods<MoeChunkableOpInterface, ["canChunk", "buildOnChunk"]>;
defvar Moe_ShadowableOnly = DeclareOpInterfaceMethods<MoeChunkableOpInterface, ["buildOnShadows"]>;
defvar Moe_ShadowableOwn =
    DeclareOpInterfaceMethods<MoeChunkableOpInterface, ["canChunk", "buildOnChunk", "buildOnShadows"]>;
defvar Moe_Accumulating = DeclareOpInterfaceMethods<MoeAccumulatingOpInterface, ["canAccumulate"]>;
defvar Moe_Cost = DeclareOpInterfaceMethods<MoeCostOpInterface>;
defvar Moe_CostOwn = DeclareOpInterfaceMethods<MoeCostOpInterface, ["getOpCost"]>;

class Moe_Kernel<list<string> methods = []> : DeclareOpInterfaceMethods<MoeKernelOpInterface, methods>;

#endif // MOE_DIALECT_MOE_IR_MOEBASE_TD
