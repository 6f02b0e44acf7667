// RUN: moe-opt %s --split-input-file --verify-diagnostics --plan-extract-half

// expected-error@+1 {{expected a program with a backward from the gradients of its outputs: with an argument of role 'cotangent' and a result of role 'gradient'}}
func.func @rank(%x: memref<4xf32> {moe.name = "x", moe.role = "input"}, %y: memref<4xf32> {moe.name = "y", moe.role = "output"})
    attributes {plan.inputs = 1 : i64} {
  plan.launch "scale"(%x) -> (%y) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

func.func @rank(%d: memref<4xf32> {moe.role = "cotangent"}, %y: memref<4xf32> {moe.role = "output"}, %g: memref<4xf32> {moe.role = "gradient"})
    attributes {plan.inputs = 1 : i64} {
  // expected-error@+1 {{expected an output to need no gradient of one, but 'scale' on 'compute' reads one}}
  plan.launch "scale"(%d) -> (%y) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
  plan.launch "scale"(%d) -> (%g) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

func.func @rank(%x: memref<4xf32> {moe.role = "input"}, %d: memref<4xf32> {moe.role = "cotangent"}, %y: memref<4xf32> {moe.role = "output"},
                %g: memref<4xf32> {moe.role = "gradient"}) attributes {plan.inputs = 2 : i64} {
  %a = plan.buffer : memref<4xf32, #plan<space device>>
  plan.launch "scale"(%x) -> (%a) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32, #plan<space device>>
  plan.launch "scale"(%a) -> (%y) params [2.0] on "compute" : (memref<4xf32, #plan<space device>>) -> memref<4xf32>
  // expected-error@+1 {{expected the backward to leave what the forward made, but 'scale' on 'compute' writes it}}
  plan.launch "scale"(%d) -> (%a) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32, #plan<space device>>
  plan.launch "scale"(%a) -> (%g) params [2.0] on "compute" : (memref<4xf32, #plan<space device>>) -> memref<4xf32>
  return
}

// -----

func.func @rank(%x: memref<4xf32> {moe.role = "input"}, %d: memref<4xf32> {moe.role = "cotangent"}, %y: memref<4xf32> {moe.role = "output"},
                %g: memref<4xf32> {moe.role = "gradient"}) attributes {plan.inputs = 2 : i64} {
  // expected-error@+1 {{expected no value on the host: what is kept between the forward and the backward is the caller's; choose a schedule that offloads nothing}}
  %a = plan.buffer : memref<4xf32, #plan<space host_pinned>>
  plan.launch "copy"(%x) -> (%a) on "copy" : (memref<4xf32>) -> memref<4xf32, #plan<space host_pinned>>
  plan.launch "scale"(%x) -> (%y) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
  plan.launch "mul"(%d, %a) -> (%g) on "compute" : (memref<4xf32>, memref<4xf32, #plan<space host_pinned>>) -> memref<4xf32>
  return
}

// -----

func.func @rank(%d: memref<4xf32> {moe.role = "cotangent"}, %g: memref<4xf32> {moe.role = "gradient"}) attributes {plan.inputs = 1 : i64} {
  // expected-error@-1 {{expected one batch in the program but got a loop over several}}
  plan.loop 2 {
    plan.launch "scale"(%d) -> (%g) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
  }
  return
}
