// The pass makes what moe-compile --schedule=auto does, up to the passes behind it.

// RUN: split-file %s %t
// RUN: moe-opt %t/layer.mlir --pass-pipeline="builtin.module(moe-auto-schedule{cluster=parm-b})" | FileCheck %s
// CHECK: module attributes {moe.cluster = #moe.cluster<node_ranks = 4, flops = 1.345e13, memory_bytes = 4.99e11, inside_bytes = 1.0e10, outside_bytes = 6.0e9>, moe.dtype = f32, moe.grad_dtype = f32, moe.parallel = #moe.parallel<{{.*}}>, plan.explain = {{.*}}verdict = "chosen"{{.*}}, plan.model_flops = {{.*}}, plan.order = "search", plan.schedule = "s2+saa", plan.tokens = 4096 : i64}
// CHECK-LABEL: func.func @rank(%arg0: tensor<1024x256xf32> {moe.layout = #moe.layout<[dp], []>,
// CHECK: moe.route
// CHECK: moe.slice {{.*}} over <"mp", 2, 1>
// CHECK: moe.all_to_all {{.*}} over <"ep", 8, 1>
// CHECK: moe.all_gather {{.*}} over <"mp", 2, 1>
// CHECK-NOT: gradient

// Forward and backward are the driver's, which names layers and reads such programs, with the order and the overlap for the passes behind.
// RUN: moe-opt %t/layer.mlir --mlir-print-debuginfo --pass-pipeline="builtin.module(moe-auto-schedule{cluster=parm-b},func.func(canonicalize,cse,moe-differentiate,canonicalize,cse,moe-split-exchanges,moe-verify-spmd))" > %t/pass.mlir
// RUN: moe-compile %t/layer.mlir --parallel=dp=4,mp=2,ep=8 --schedule=auto --cluster=parm-b --emit=spmd --reference=false -o %t/driver.mlir
// RUN: moe-compile %t/pass.mlir --emit=spmd -o - | diff - %t/driver.mlir

// Another cluster, by the path of its profile; a step without a backward.
// RUN: moe-opt %t/layer.mlir --mlir-print-debuginfo --pass-pipeline="builtin.module(moe-auto-schedule{cluster=%share/clusters/localhost.json train=false},func.func(canonicalize,cse,moe-verify-spmd))" > %t/pass.mlir
// RUN: moe-compile %t/layer.mlir --parallel=dp=4,mp=2,ep=8 --schedule=auto --cluster=localhost --mode=forward --emit=spmd --reference=false -o %t/driver.mlir
// RUN: moe-compile %t/pass.mlir --emit=spmd -o - | diff - %t/driver.mlir
// RUN: FileCheck %s --check-prefix=FORWARD < %t/pass.mlir
// FORWARD: plan.schedule = "s2

// A model of several layers, for which plans of the whole are compared too, in little memory.
// RUN: moe-opt %t/model.mlir --mlir-print-debuginfo --pass-pipeline="builtin.module(moe-auto-schedule{cluster=hgx-h100 memory-limit=500000},func.func(canonicalize,cse,moe-differentiate,canonicalize,cse,moe-verify-spmd))" > %t/pass.mlir
// RUN: moe-compile %t/model.mlir --parallel=dp=4,ep=4 --schedule=auto --cluster=hgx-h100 --memory-limit=500000 --emit=spmd --reference=false -o %t/driver.mlir
// RUN: moe-compile %t/pass.mlir --emit=spmd -o - | diff - %t/driver.mlir
// RUN: FileCheck %s --check-prefix=MODEL < %t/pass.mlir
// MODEL: model_memory = {{[0-9]+}} : i64, model_seconds = {{.*}}plan.schedule = "

// Without layers there is nothing to choose.
// RUN: moe-opt %t/dense.mlir --moe-auto-schedule=cluster=hgx-h100 | FileCheck %s --check-prefix=DENSE
// DENSE: module attributes {moe.cluster = #moe.cluster<node_ranks = 8, flops = 6.69e13, memory_bytes = 2.837e12, inside_bytes = {{[0-9.e]+}}, outside_bytes = {{[0-9.e]+}}>, moe.dtype = f32, moe.grad_dtype = f32, moe.parallel = #moe.parallel<{{.*}}>, plan.model_flops = 0.0{{.*}}, plan.tokens = 64 : i64} {
// DENSE-NEXT: func.func @model(%arg0: tensor<64x8xf32> {moe.layout = #moe.layout<[], []>,
// DENSE-NEXT: moe.add %arg0, %arg0 : tensor<64x8xf32>

//--- layer.mlir
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 8, esp = 1>} {
  func.func @rank(%x: tensor<4096x256xf32> {moe.name = "x", moe.role = "input"}, %gate: tensor<256x8xf32> {moe.name = "gate", moe.role = "parameter"},
                  %w1: tensor<8x256x512xf32> {moe.name = "w1", moe.role = "parameter"}, %w2: tensor<8x512x256xf32> {moe.name = "w2", moe.role = "parameter"})
      -> (tensor<4096x256xf32> {moe.name = "y", moe.role = "output"}, tensor<f32> {moe.name = "aux", moe.role = "output"}) {
    %y, %aux = moe.layer "layer0" %x gate(%gate) experts(%w1, %w2)
      {top_k = 1 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
      : (tensor<4096x256xf32>, tensor<256x8xf32>, tensor<8x256x512xf32>, tensor<8x512x256xf32>) -> (tensor<4096x256xf32>, tensor<f32>)
    return %y, %aux : tensor<4096x256xf32>, tensor<f32>
  }
}

//--- model.mlir
module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>} {
  func.func @rank(%x: tensor<256x32xf32> {moe.name = "x", moe.role = "input"}, %gate: tensor<32x4xf32> {moe.name = "gate", moe.role = "parameter"},
                  %w1: tensor<4x32x64xf32> {moe.name = "w1", moe.role = "parameter"}, %w2: tensor<4x64x32xf32> {moe.name = "w2", moe.role = "parameter"})
      -> (tensor<256x32xf32> {moe.name = "y", moe.role = "output"}) {
    %h, %aux0 = moe.layer "layer0" %x gate(%gate) experts(%w1, %w2)
      {top_k = 1 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
      : (tensor<256x32xf32>, tensor<32x4xf32>, tensor<4x32x64xf32>, tensor<4x64x32xf32>) -> (tensor<256x32xf32>, tensor<f32>)
    %y, %aux1 = moe.layer "layer1" %h gate(%gate) experts(%w1, %w2)
      {top_k = 1 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
      : (tensor<256x32xf32>, tensor<32x4xf32>, tensor<4x32x64xf32>, tensor<4x64x32xf32>) -> (tensor<256x32xf32>, tensor<f32>)
    return %y : tensor<256x32xf32>
  }
}

//--- dense.mlir
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @model(%x: tensor<64x8xf32> {moe.name = "x", moe.role = "input"}) -> (tensor<64x8xf32> {moe.name = "y", moe.role = "output"}) {
    %y = moe.add %x, %x : tensor<64x8xf32>
    return %y : tensor<64x8xf32>
  }
}
