// RUN: moe-opt %s -split-input-file --convert-plan-to-llvm -verify-diagnostics

// A reference alone is no plan.
// expected-error @+1 {{expected a rank program 'rank'}}
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @reference(%x: memref<4xf32>)
      attributes {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} {
    plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

// Metadata needs to know the world.
// expected-error @+1 {{expected a 'moe.parallel' attribute on the module}}
module {
  func.func @rank(%x: memref<4xf32>) {
    plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

// A launch without a stream.
module attributes {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} {
  func.func @rank(%x: memref<4xf32>) {
    // expected-error @+1 {{expected 'scale' to have a stream; run plan-assign-streams first}}
    plan.launch "scale"(%x) -> (%x) params [2.0] : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

// A buffer without an offset.
module attributes {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} {
  func.func @rank(%x: memref<4xf32>) {
    // expected-error @+1 {{expected an offset; run plan-assign-memory first}}
    %0 = plan.buffer : memref<4xf32, #plan<space device>>
    plan.launch "scale"(%x) -> (%0) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32, #plan<space device>>
    return
  }
}

// -----

// Launches that are no calls of the runtime.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @rank(%x: memref<4xf32>, %i: memref<4xi32>) {
    // expected-error @+1 {{expected a call of the runtime but got 'scales'}}
    plan.launch "scales"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @rank(%x: memref<4xf32>, %i: memref<4xi32>) {
    // expected-error @+1 {{expected 'scale' to have 0 integers and then 1 real numbers but got [2]}}
    plan.launch "scale"(%x) -> (%x) params [2] on "compute" : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @rank(%x: memref<4xf32>, %i: memref<4xi32>) {
    // expected-error @+1 {{expected 'add' to have 2 inputs and 1 outputs but got 1 and 1}}
    plan.launch "add"(%x) -> (%x) on "compute" : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @rank(%x: memref<4xf32>, %i: memref<4xi32>) {
    // expected-error @+1 {{expected 'b' of 'add' to be there}}
    plan.launch "add"(%x) -> (%x) on "compute" {absent = array<i64: 1>} : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @rank(%x: memref<4xf32>, %i: memref<4xi32>) {
    // expected-error @+1 {{expected 'in' of 'scale' to be of a floating type but got 'memref<4xi32>'}}
    plan.launch "scale"(%i) -> (%x) params [2.0] on "compute" : (memref<4xi32>) -> memref<4xf32>
    return
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @rank(%x: memref<4xf32>, %i: memref<4xi32>) {
    // expected-error @+1 {{expected 'out' of 'positions' to be i32 but got 'memref<4xf32>'}}
    plan.launch "positions"() -> (%x) params [2] on "compute" : () -> memref<4xf32>
    return
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @rank(%x: memref<4xf32>, %i: memref<4xi32>) {
    // expected-error @+1 {{expected 'all_gather' to be a collective}}
    plan.launch "all_gather"(%x) -> (%x) params [0] over <"dp", 2, 1> on "compute" : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @rank(%x: memref<4xf32>, %i: memref<4xi32>) {
    // expected-error @+1 {{expected 'scale' not to have a group}}
    plan.launch "scale"(%x) -> (%x) params [2.0] over <"dp", 2, 1> on "compute" : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @rank(%x: memref<4xf32>, %i: memref<4xi32>) {
    // expected-error @+1 {{expected 'slice' not to write in the memory of 'in'}}
    plan.launch "slice"(%x) -> (%x) params [0] over <"dp", 2, 1> on "compute" {in_place = array<i64: 0>} : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  func.func @rank(%x: memref<4xf32>) {
    // expected-error @+1 {{expected 'assume_replicated' not to write in the memory of 'in'}}
    plan.launch "assume_replicated"(%x) -> () collective over <"dp", 2, 1> on "compute" {in_place = array<i64: 0>} : (memref<4xf32>) -> ()
    return
  }
}

// -----

// Each rank has a program.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  // expected-error @+1 {{expected rank programs for 2 ranks but got 1}}
  func.func @rank(%x: memref<4xf32>) attributes {plan.ranks = array<i64: 0, 1>} {
    plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

// A layout over a group that is not there.
module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>} {
  // expected-error @+1 {{expected the layout of 'x' to name groups of #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1> but got #moe.layout<[tp]>}}
  func.func @rank(%x: memref<4xf32> {moe.name = "x", moe.layout = #moe.layout<[tp]>}) {
    plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
    return
  }
}
