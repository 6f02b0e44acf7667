// RUN: split-file %s %t
// RUN: moe-sim %t/layer.mlir --parallel=dp=4,ep=4 --cluster=%S/Inputs/fastermoe.json --routing=%t/counts.jsonl --roofline=baseline+smart:1,ring,baseline+shadow:2,prefix+smart:1 | FileCheck %s
// RUN: moe-sim %t/layer.mlir --parallel=dp=4,ep=4 --cluster=%S/Inputs/fastermoe.json --routing=%t/counts.jsonl --roofline=baseline+chunks:2 --json | FileCheck %s --check-prefix=JSON
// RUN: not moe-sim %t/layer.mlir --parallel=dp=4,ep=4 --cluster=%S/Inputs/fastermoe.json --roofline=baseline+nonsense 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not moe-sim %t/layer.mlir --parallel=dp=4,ep=4 --cluster=%S/Inputs/fastermoe.json --roofline=baseline,baseline+saa 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: moe-compile %t/layer.mlir --parallel=dp=4,ep=4 --cluster=%S/Inputs/fastermoe.json --emit=plan -o %t/plan.mlir
// RUN: not moe-sim %t/plan.mlir --cluster=%S/Inputs/fastermoe.json --roofline=baseline 2>&1 | FileCheck %s --check-prefix=PLAN

// The plan and two others, whose names have commas. Phases move and compute the same, and only the time of the step
// differs. Shadows save bytes of tokens and add those of experts.
// CHECK:      speed       1.77 TFLOP/s a device, MFU 15.4%, {{702[67][0-9]}} tokens/s a device
// CHECK:      roofline    1.77 TFLOP/s a device, R_CC 2.05
// CHECK:      schedule                      step ms    R_CC  mean, ideal, semi TFLOP/s   share
// CHECK-NEXT: baseline                       14.230    2.05    1.771   11.500    7.734   15.4%
// CHECK-NEXT: smart:1,ring                    9.{{...}}    2.05    2.{{...}}   11.500    7.734   {{[0-9.]+}}%
// CHECK-NEXT: shadow:2,prefix+smart:1         {{[67]}}.{{...}}   0.578    3.{{...}}    6.642    4.210   {{[0-9.]+}}%
// CHECK-NEXT: Mean, ideal and semi-ideal are those of a device; share is mean / ideal.

// JSON:      "roofline": {
// JSON-NEXT:   "peak_flops_per_s": 11500000000000,
// JSON-NEXT:   "r_cc": 2.0
// JSON:        "points": [
// JSON-NEXT:     {
// JSON-NEXT:       "schedule": "baseline",
// JSON-NEXT:       "step_s": 0.01423
// JSON-NEXT:       "r_cc": 2.0
// JSON-NEXT:       "mean_flops_per_s": 177
// JSON-NEXT:       "ideal_flops_per_s": 11500000000000,
// JSON-NEXT:       "semi_ideal_flops_per_s": 773
// JSON-NEXT:       "share_of_ideal": 0.15
// JSON-NEXT:     },
// JSON-NEXT:     {
// JSON-NEXT:       "schedule": "{{.*}}chunks:2",

// NAME: moe-sim: error: expected --schedule to be made of {{.*}} but got 'baseline+nonsense'
// REFUSED: moe-sim: error: expected 'saa' with 's2'
// PLAN: moe-sim: error: --roofline needs a model, which it compiles by other schedules, but '{{.*}}plan.mlir' is a plan

//--- layer.mlir
func.func @model(%x: tensor<4000x1024xf32> {moe.name = "x", moe.role = "input"},
                 %gate: tensor<1024x4xf32> {moe.name = "gate", moe.role = "parameter"},
                 %w1: tensor<4x1024x2048xf32> {moe.name = "w1", moe.role = "parameter"},
                 %w2: tensor<4x2048x1024xf32> {moe.name = "w2", moe.role = "parameter"})
    -> (tensor<4000x1024xf32> {moe.name = "y", moe.role = "output"}, tensor<f32> {moe.name = "aux", moe.role = "output"}) {
  %y, %aux = moe.layer "layer0" %x gate(%gate) experts(%w1, %w2) {top_k = 1 : i64, activation = #moe<activation relu>}
      : (tensor<4000x1024xf32>, tensor<1024x4xf32>, tensor<4x1024x2048xf32>, tensor<4x2048x1024xf32>)
      -> (tensor<4000x1024xf32>, tensor<f32>)
  return %y, %aux : tensor<4000x1024xf32>, tensor<f32>
}
//--- counts.jsonl
{"iteration": 0, "layer": 0, "counts": [[800, 100, 50, 50], [800, 100, 50, 50], [800, 100, 50, 50], [800, 100, 50, 50]]}
