//===- Passes.td - conversions between dialects --------*- tablegen -*-===//
#ifndef MOE_CONVERSION_PASSES_TD
#define MOE_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertMoeToPlan : Pass<"convert-moe-to-plan", "::mlir::func::FuncOp"> {
  let summary = "convert SPMD programs to plans, with one launch for each op";
  let description = [{
    Each op becomes a `plan.launch` of the kernel that its MoeKernelOpInterface names, with its cost. Tensors become
    buffers. Results of the function become arguments after its inputs. A value that is only another state of its operand
    shares the operand's buffer.

    Before -> after:

    ```mlir
    func.func @f(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %0 = moe.scale %a {factor = 2.0 : f64} : tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }
    // ->
    func.func @f(%a: memref<4x8xf32>, %r: memref<4x8xf32>) attributes {plan.inputs = 1 : i64} {
      plan.launch "scale"(%a) -> (%r) params [2.0] {in_place = array<i64: 0>} : (memref<4x8xf32>) -> (memref<4x8xf32>)
      return
    }
    ```
  }];
  let dependentDialects = ["::mlir::plan::PlanDialect"];
}

def PlanVerifyTypes : Pass<"plan-verify-types", "::mlir::func::FuncOp"> {
  let summary = "reject plans that round values more than their types ask for";
  let description = [{
    Compares a program of a plan with `moe.dtype` and `moe.grad_dtype` of its module, by the table of calls
    (docs/Verification.md, "Types"). Without the first, the plan's type is that of the arguments with the fewest bits.
    These are errors:

    - a value of another type than that of the plan and of its accumulators;
    - operands of two types where the call has one;
    - an accumulator of 16 bits;
    - a cast to fewer bits of a value that is no parameter, was not cast to more, and is no gradient of such a value;
    - a value that is rounded to fewer bits, moved or summed over ranks, and given more bits again;
    - if `moe.grad_dtype` is there, the gradient of a parameter in fewer bits, a sum over data-parallel ranks in fewer
      bits, and a sum that is given more bits after it.
  }];
}

def ConvertPlanToLLVM : Pass<"convert-plan-to-llvm", "::mlir::ModuleOp"> {
  let summary = "convert rank programs to LLVM functions that call moert.h";
  let description = [{
    Each rank program `@f` becomes `moeplan_f(moert_rank_t) -> i32`. It makes one call after the other, and stops at the
    first status that is not 0. Buffers and groups become constant tables. The exported string `moeplan_metadata`
    describes the programs to the runtime (docs/PlanFormat.md).

    A plan of several shapes has variants (moe/Conversion/Variants.h). They become functions of one module, `moeplan_v0_f`
    and so on. `moeplan_choose(batch, sequence) -> i64` gives the index of the variant to run. It takes the variants for
    that shape, and gives the first with the least `alpha + beta * batch * sequence`. If there is no variant for the
    shape, it gives -1.

    ```mlir
    module {
      module attributes {plan.batch = 2 : i64, plan.sequence = 64 : i64, plan.seconds = [1.0e-4, 2.0e-7], plan.schedule = "s1"} {
        func.func @rank(..)
      }
      module attributes {plan.batch = 2 : i64, plan.sequence = 64 : i64, plan.seconds = [2.0e-4, 1.0e-7], plan.schedule = "s2"} {
        func.func @rank(..)
      }
    }
    // ->
    module {
      llvm.func @moeplan_choose(i64, i64) -> i64
      llvm.func @moeplan_v0_rank(!llvm.ptr) -> i32
      llvm.func @moeplan_v1_rank(!llvm.ptr) -> i32
      llvm.mlir.global external constant @moeplan_metadata(..)
    }
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // MOE_CONVERSION_PASSES_TD
