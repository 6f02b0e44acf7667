// The program of a rank as the input of moe-compile, written by hand: two ranks of data parallelism add up a gradient.

// RUN: split-file %s %t
// RUN: moe-compile %t/step.mlir --emit=plan -o - | FileCheck %s
// CHECK: module attributes {{{.*}}plan.mode = "train", plan.schedule = "hand-written"}
// CHECK: plan.launch "matmul"{{.*}}label = "linear"
// CHECK: plan.launch "all_reduce"{{.*}}over <"dp", 2, 1>
// CHECK-NOT: label
// RUN: moe-compile %t/step.mlir --digest -o %t/step.so
// RUN: moe-run %t/step.so | FileCheck %s --check-prefix=RAN
// RAN: ranks
// RUN: not moe-run %t/step.so --verify 2>&1 | FileCheck %s --check-prefix=REFERENCE
// REFERENCE: reference

// A missing sum is found at its line.
// RUN: sed 's/moe.all_reduce \(%[a-z]*\) over.*/moe.scale \1 {factor = 1.0 : f64} : tensor<4x4xf32>/' %t/step.mlir > %t/missing.mlir
// RUN: not moe-compile %t/missing.mlir --emit=plan -o - 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: missing.mlir:{{[0-9]+}}:{{[0-9]+}}: error:

// Choices in the program cannot be options.
// RUN: not moe-compile %t/step.mlir --schedule=s1 --emit=plan 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// SCHEDULE: expected --schedule with a model only: '{{.*}}step.mlir' is a rank program, in which this is fixed; leave the option out
// RUN: not moe-compile %t/step.mlir --parallel=dp=2 --emit=plan 2>&1 | FileCheck %s --check-prefix=PARALLEL
// PARALLEL: expected --parallel with a model only
// RUN: not moe-compile %t/step.mlir --parallel=auto --world=2 --emit=plan 2>&1 | FileCheck %s --check-prefix=AUTO
// AUTO: --parallel=auto cannot be combined with
// RUN: not moe-compile %t/step.mlir --memory-limit=100 --emit=plan 2>&1 | FileCheck %s --check-prefix=LIMIT
// LIMIT: expected --memory-limit with a model only
// RUN: not moe-compile %t/step.mlir --emit=l0 2>&1 | FileCheck %s --check-prefix=L0
// L0: expected --emit=spmd, plan, llvm, obj or so with '{{.*}}step.mlir', which is already a rank program
// RUN: not moe-sim %t/step.mlir 2>&1 | FileCheck %s --check-prefix=SIM
// SIM: step.mlir:1:1: error: expected a model graph but got a rank program

// These are required in a program.
// RUN: sed 's/^module attributes.*/module {/' %t/step.mlir > %t/groups.mlir
// RUN: not moe-compile %t/groups.mlir --emit=plan 2>&1 | FileCheck %s --check-prefix=GROUPS
// GROUPS: groups.mlir:1:1: error: expected moe.parallel on the module, which gives the groups of ranks
// RUN: sed 's/@rank/@model/' %t/step.mlir > %t/name.mlir
// RUN: not moe-compile %t/name.mlir --emit=plan 2>&1 | FileCheck %s --check-prefix=NAME
// NAME: name.mlir:2:3: error: expected @rank and at most a @reference beside it but got @model
// RUN: sed 's/@rank/@reference/' %t/step.mlir > %t/alone.mlir
// RUN: not moe-compile %t/alone.mlir --emit=plan 2>&1 | FileCheck %s --check-prefix=ALONE
// ALONE: alone.mlir:2:3: error: expected moe.parallel = #moe.parallel<world = 1, {{.*}}> on @reference, and none on @rank
// RUN: sed 's/"gradient"/"grad"/' %t/step.mlir > %t/role.mlir
// RUN: not moe-compile %t/role.mlir --emit=plan 2>&1 | FileCheck %s --check-prefix=ROLE
// ROLE: role.mlir:2:3: error: expected moe.role in a rank program to be input or {{.*}} but got "grad"
// RUN: sed 's/{moe.label = "linear"}/{moe.label = 3 : i64}/' %t/step.mlir > %t/label.mlir
// RUN: not moe-compile %t/label.mlir --emit=plan 2>&1 | FileCheck %s --check-prefix=LABEL
// LABEL: label.mlir:{{[0-9]+}}:{{[0-9]+}}: error: {{.*}}expected 'moe.label' to be a string but got 3 : i64
// RUN: sed 's/esp = 1>/esp = 1>, plan.schedule = "s3"/' %t/step.mlir > %t/schedule.mlir
// RUN: not moe-compile %t/schedule.mlir --emit=plan 2>&1 | FileCheck %s --check-prefix=KNOWN
// KNOWN: schedule.mlir:1:1: error: expected plan.schedule to be a name that --schedule takes, or to be left out, but got "s3"
// RUN: sed 's/esp = 1>/esp = 1>, plan.order = "s3"/' %t/step.mlir > %t/order.mlir
// RUN: not moe-compile %t/order.mlir --emit=plan 2>&1 | FileCheck %s --check-prefix=ORDER
// ORDER: order.mlir:1:1: error: expected plan.order to be search, mpipemoe, fastermoe or program but got "s3"

// The programs of a pipeline's stages can no longer be checked.
// RUN: moe-compile %S/models/gpt2-moe.json --whole-model --seq=8 --parallel=pp=2,dp=2 --emit=spmd -o %t/stages.mlir
// RUN: not moe-compile %t/stages.mlir --emit=plan 2>&1 | FileCheck %s --check-prefix=STAGES
// STAGES: stages.mlir:1:1: error: expected pp = 1 in a rank program but got pp = 2

//--- step.mlir
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @rank(%x: tensor<8x4xf32> {moe.layout = #moe.layout<[dp], []>, moe.name = "x", moe.role = "input"},
                  %w: tensor<4x4xf32> {moe.layout = #moe.layout<[], []>, moe.name = "w", moe.role = "parameter"},
                  %dy: tensor<8x4xf32> {moe.layout = #moe.layout<[dp], []>, moe.name = "cotangent.y", moe.role = "cotangent"})
      -> (tensor<8x4xf32> {moe.layout = #moe.layout<[dp], []>, moe.name = "y", moe.role = "output"},
          tensor<4x4xf32> {moe.layout = #moe.layout<[], []>, moe.name = "grad.w", moe.role = "gradient"}) {
    %own = moe.to_varying %w over <"dp", 2, 1> : tensor<4x4xf32>
    %y = moe.matmul %x, %own {moe.label = "linear"} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %part = moe.matmul %x, %dy {transpose_a} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %grad = moe.all_reduce %part over <"dp", 2, 1> : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %y, %grad : tensor<8x4xf32>, tensor<4x4xf32>
  }
}
