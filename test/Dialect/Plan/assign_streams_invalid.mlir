// RUN: moe-opt %s -split-input-file --plan-assign-streams -verify-diagnostics

// Streams come before memory.
func.func @offset(%a: memref<4xf32>) {
  // expected-error @+1 {{expected no offset before streams are assigned}}
  %0 = plan.buffer {offset = 0 : i64} : memref<4xf32, #plan<space device>>
  plan.launch "copy"(%a) -> (%0) : (memref<4xf32>) -> memref<4xf32, #plan<space device>>
  return
}

// -----

// Other ops have no place in a rank program.
func.func @other(%a: memref<4xf32>) {
  // expected-error @+1 {{expected only plan ops and a return of nothing in a rank program}}
  %0 = arith.constant 0 : i32
  plan.record 0 on "compute"
  return
}

// -----

// Arguments are memory that a call can take.
// expected-error @+1 {{expected argument 1 to be a dense row-major memref of f32, f64, bf16, f16 or i32 with rank 4 and 2^48 bytes at most but got 'i32'}}
func.func @argument(%a: memref<4xf32>, %b: i32) {
  plan.record 0 on "compute"
  return
}
