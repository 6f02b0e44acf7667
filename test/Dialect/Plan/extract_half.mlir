// RUN: moe-opt %s --split-input-file --plan-extract-half=half=forward | FileCheck %s --check-prefix=FORWARD
// RUN: moe-opt %s --split-input-file --plan-extract-half=half=backward | FileCheck %s --check-prefix=BACKWARD

// y = a(x), z = b(y, w) is kept, and the backward of z reads y, z and what is computed again of x.

// FORWARD-LABEL: func.func @rank(
// FORWARD-SAME:    %[[X:[a-z0-9]+]]: memref<4xf32> {moe.name = "x", moe.role = "input"}
// FORWARD-SAME:    %[[W:[a-z0-9]+]]: memref<4xf32> {moe.name = "w", moe.role = "parameter"}
// FORWARD-SAME:    %[[Z:[a-z0-9]+]]: memref<4xf32> {moe.name = "z", moe.role = "output"}
// FORWARD-SAME:    %[[Y:[a-z0-9]+]]: memref<4xf32> {moe.name = "residual0", moe.role = "residual"})
// FORWARD-SAME:    attributes {plan.inputs = 2 : i64}
// FORWARD-NOT:     plan.wait
// FORWARD:         plan.launch "scale"(%[[X]]) -> (%[[Y]])
// FORWARD-NEXT:    plan.view %[[Y]] part 1 of 2 : memref<4xf32> -> memref<2xf32>
// FORWARD-NEXT:    plan.launch "scale"
// FORWARD:         %[[T:.*]] = plan.buffer : memref<4xf32, #plan<space device>>
// FORWARD-NEXT:    plan.launch "mul"(%[[Y]], %[[W]]) -> (%[[T]])
// FORWARD-NEXT:    plan.launch "scale"(%[[T]]) -> (%[[Z]])
// FORWARD-NOT:     plan.launch

// BACKWARD-LABEL: func.func @rank(
// BACKWARD-SAME:    %[[X:[a-z0-9]+]]: memref<4xf32> {moe.name = "x", moe.role = "input"}
// BACKWARD-SAME:    %[[D:[a-z0-9]+]]: memref<4xf32> {moe.name = "cotangent.z", moe.role = "cotangent"}
// BACKWARD-SAME:    %[[Y:[a-z0-9]+]]: memref<4xf32> {moe.name = "residual0", moe.role = "residual"}
// BACKWARD-SAME:    %[[Z:[a-z0-9]+]]: memref<4xf32> {moe.name = "z", moe.role = "output"}
// BACKWARD-SAME:    %[[G:[a-z0-9]+]]: memref<4xf32> {moe.name = "grad.w", moe.role = "gradient"})
// BACKWARD-SAME:    attributes {plan.inputs = 4 : i64}
// BACKWARD-NEXT:    %[[A:.*]] = plan.buffer : memref<4xf32, #plan<space device>>
// BACKWARD-NEXT:    plan.launch "scale"(%[[X]]) -> (%[[A]])
// BACKWARD-NEXT:    %[[U:.*]] = plan.buffer : memref<4xf32, #plan<space device>>
// BACKWARD-NEXT:    plan.launch "mul"(%[[D]], %[[Y]]) -> (%[[U]])
// BACKWARD-NEXT:    %[[V:.*]] = plan.buffer : memref<4xf32, #plan<space device>>
// BACKWARD-NEXT:    plan.launch "mul"(%[[U]], %[[Z]]) -> (%[[V]])
// BACKWARD-NEXT:    plan.launch "mul"(%[[V]], %[[A]]) -> (%[[G]])
// BACKWARD-NEXT:    return
func.func @rank(%x: memref<4xf32> {moe.name = "x", moe.role = "input"}, %w: memref<4xf32> {moe.name = "w", moe.role = "parameter"},
                %d: memref<4xf32> {moe.name = "cotangent.z", moe.role = "cotangent"},
                %z: memref<4xf32> {moe.name = "z", moe.role = "output"},
                %g: memref<4xf32> {moe.name = "grad.w", moe.role = "gradient"}) attributes {plan.inputs = 3 : i64, plan.arenas = {device = 512 : i64}} {
  %y = plan.buffer {offset = 0 : i64} : memref<4xf32, #plan<space device>>
  plan.launch "scale"(%x) -> (%y) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32, #plan<space device>>
  plan.record 0 on "compute"
  %half = plan.view %y part 1 of 2 : memref<4xf32, #plan<space device>> -> memref<2xf32, #plan<space device>>
  plan.launch "scale"(%half) -> (%half) params [2.0] on "compute" : (memref<2xf32, #plan<space device>>) -> memref<2xf32, #plan<space device>>
  %again = plan.buffer {offset = 256 : i64} : memref<4xf32, #plan<space device>>
  plan.launch "scale"(%x) -> (%again) params [3.0] on "compute" : (memref<4xf32>) -> memref<4xf32, #plan<space device>>
  plan.wait 0 on "comm.intra"
  %t = plan.buffer {offset = 256 : i64} : memref<4xf32, #plan<space device>>
  plan.launch "mul"(%y, %w) -> (%t) on "compute" : (memref<4xf32, #plan<space device>>, memref<4xf32>) -> memref<4xf32, #plan<space device>>
  plan.launch "scale"(%t) -> (%z) params [1.0] on "compute" : (memref<4xf32, #plan<space device>>) -> memref<4xf32>
  %u = plan.buffer {offset = 256 : i64} : memref<4xf32, #plan<space device>>
  plan.launch "mul"(%d, %y) -> (%u) on "compute" : (memref<4xf32>, memref<4xf32, #plan<space device>>) -> memref<4xf32, #plan<space device>>
  %v = plan.buffer {offset = 256 : i64} : memref<4xf32, #plan<space device>>
  plan.launch "mul"(%u, %z) -> (%v) on "compute" : (memref<4xf32, #plan<space device>>, memref<4xf32>) -> memref<4xf32, #plan<space device>>
  plan.launch "mul"(%v, %again) -> (%g) on "compute" : (memref<4xf32, #plan<space device>>, memref<4xf32, #plan<space device>>) -> memref<4xf32>
  return
}
