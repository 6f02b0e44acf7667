// RUN: moe-opt %s --pass-pipeline="builtin.module(moe-set-cluster{rates='#moe.cluster<flops = 1.0e9, memory_bytes = 1.0e12>'},func.func(moe-cut-stages{stages=2}))" --split-input-file | FileCheck %s
// RUN: not moe-opt %s --moe-cut-stages=stages=9 --split-input-file 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: moe-opt %s --moe-cut-stages=stages=0 --split-input-file | FileCheck %s --check-prefix=PARTS
// RUN: not moe-opt %s --moe-cut-stages="stages=2 boundaries=0,1,2" --split-input-file 2>%t.err | FileCheck %s --check-prefix=GIVEN
// RUN: not moe-opt %s --moe-cut-stages="stages=2 boundaries=0,2" --split-input-file 2>&1 | FileCheck %s --check-prefix=FEW
// RUN: not moe-opt %s --moe-cut-stages="stages=2 boundaries=0,0,2" --split-input-file 2>&1 | FileCheck %s --check-prefix=FLAT

// With stages=0 each part is a stage, and the function says what each receives. Given boundaries are taken as they are, and checked.
// PARTS: func.func @chain
// PARTS-SAME: moe.part_bytes = array<f64: 0.000000e+00, 2.560000e+02>
// GIVEN: func.func @chain
// GIVEN: moe.matmul {{.*}}#moe.stage<0>
// GIVEN: moe.matmul {{.*}}#moe.stage<1>
// RUN: FileCheck %s --check-prefix=OTHER --input-file=%t.err
// OTHER: error: expected boundaries of 2 stages that rise from 0 to 3, the number of parts, but got 0, 1, 2
// FEW: error: expected boundaries of 2 stages that rise from 0 to 2, the number of parts, but got 0, 2
// FLAT: error: expected boundaries of 2 stages that rise from 0 to 2, the number of parts, but got 0, 0, 2

// The second product is as much work as the other two together. What needs parameters alone belongs to no stage.
// MANY: error: expected at most 2 stages, since the model has no more places for a cut, but got 9
// CHECK-LABEL: func.func @chain
func.func @chain(%x: tensor<8x8xf32> {moe.role = "input"}, %a: tensor<8x8xf32> {moe.role = "parameter"},
                 %b: tensor<8x16xf32> {moe.role = "parameter"}, %c: tensor<16x4xf32> {moe.role = "parameter"}) -> tensor<8x4xf32> {
  // CHECK: moe.scale %{{.+}} {factor = 5.000000e-01 : f64} : tensor<8x8xf32>
  %half = moe.scale %a {factor = 0.5 : f64} : tensor<8x8xf32>
  // CHECK: moe.matmul {{.*}} {moe.stage = #moe.stage<0>} : (tensor<8x8xf32>, tensor<8x8xf32>)
  %0 = moe.matmul %x, %half : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: moe.matmul {{.*}} {moe.stage = #moe.stage<1>} : (tensor<8x8xf32>, tensor<8x16xf32>)
  %1 = moe.matmul %0, %b : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK: moe.matmul {{.*}} {moe.stage = #moe.stage<1>} : (tensor<8x16xf32>, tensor<16x4xf32>)
  %2 = moe.matmul %1, %c : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}

// -----

// Inside a block more is handed over than between two of them: it is not cut there, even where that would be more even.
// CHECK-LABEL: func.func @blocks
func.func @blocks(%x: tensor<8x8xf32> {moe.role = "input"}, %a: tensor<8x8xf32> {moe.role = "parameter"},
                  %b: tensor<8x8xf32> {moe.role = "parameter"}) -> tensor<8x8xf32> {
  // CHECK: moe.matmul {{.*}}#moe.stage<0>
  %0 = moe.matmul %x, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: moe.matmul {{.*}}#moe.stage<1>
  %1 = moe.matmul %0, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: moe.matmul {{.*}}#moe.stage<1>
  %2 = moe.matmul %1, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: moe.add {{.*}}#moe.stage<1>
  %3 = moe.add %0, %2 : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}
