// RUN: moe-opt %s -split-input-file --convert-plan-to-llvm -verify-diagnostics

// A variant without a shape.
module {
  // expected-error @+1 {{expected 'plan.sequence' of a variant to be an i64 of at least 1}}
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 2 : i64} {
    func.func @rank(%x: memref<4xf32>) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
      return
    }
  }
}

// -----

// No sequences.
module {
  // expected-error @+1 {{expected 'plan.batch' of a variant to be an i64 of at least 1}}
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 0 : i64, plan.sequence = 4 : i64} {
    func.func @rank(%x: memref<4xf32>) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
      return
    }
  }
}

// -----

// Seconds are two numbers.
module {
  // expected-error @+1 {{expected 'plan.seconds' to be [alpha, beta] of f64 with a finite alpha + beta * tokens but got [1.000000e+00]}}
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 2 : i64, plan.sequence = 4 : i64, plan.seconds = [1.0]} {
    func.func @rank(%x: memref<4xf32>) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
      return
    }
  }
}

// -----

// Seconds are of f64.
module {
  // expected-error @+1 {{expected 'plan.seconds' to be [alpha, beta] of f64 with a finite alpha + beta * tokens}}
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 2 : i64, plan.sequence = 4 : i64, plan.seconds = [1.0, 2.0 : f32]} {
    func.func @rank(%x: memref<4xf32>) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
      return
    }
  }
}

// -----

// Infinite seconds would never be the least.
module {
  // expected-error @+1 {{expected 'plan.seconds' to be [alpha, beta] of f64 with a finite alpha + beta * tokens}}
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 2 : i64, plan.sequence = 4 : i64, plan.seconds = [0x7FF0000000000000 : f64, 2.0]} {
    func.func @rank(%x: memref<4xf32>) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
      return
    }
  }
}

// -----

// Two variants for one shape must both have their seconds.
module {
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 2 : i64, plan.sequence = 4 : i64, plan.schedule = "s1", plan.seconds = [1.0, 2.0]} {
    func.func @rank(%x: memref<4xf32>) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
      return
    }
  }
  // expected-error @+1 {{expected 'plan.seconds' on each variant, since several are for batch 2 and sequence 4}}
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 2 : i64, plan.sequence = 4 : i64, plan.schedule = "s2"} {
    func.func @rank(%x: memref<4xf32>) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
      return
    }
  }
}

// -----

// Two variants for one shape and of one schedule: one is never chosen.
module {
  // expected-note @+1 {{the other variant is here}}
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 2 : i64, plan.sequence = 4 : i64, plan.schedule = "s1", plan.seconds = [1.0, 2.0]} {
    func.func @rank(%x: memref<4xf32>) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
      return
    }
  }
  // expected-error @+1 {{expected variants for batch 2 and sequence 4 to be of different schedules}}
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 2 : i64, plan.sequence = 4 : i64, plan.schedule = "s1", plan.seconds = [1.0, 2.0]} {
    func.func @rank(%x: memref<4xf32>) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
      return
    }
  }
}

// -----

// A world has as many ranks whatever it runs.
module {
  // expected-note @+1 {{the other variant is here}}
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 2 : i64, plan.sequence = 4 : i64} {
    func.func @rank(%x: memref<4xf32>) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
      return
    }
  }
  // expected-error @+1 {{expected all variants for #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1> but got #moe.parallel<world = 4}}
  module attributes {moe.parallel = #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 1, esp = 1>, plan.batch = 4 : i64, plan.sequence = 4 : i64} {
    func.func @rank(%x: memref<4xf32>) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
      return
    }
  }
}

// -----

// Variants must be the only content of the module.
module {
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 2 : i64, plan.sequence = 4 : i64} {
    func.func @rank(%x: memref<4xf32>) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
      return
    }
  }
  // expected-error @+1 {{expected only modules beside a variant, which are other variants}}
  func.func @rank(%x: memref<4xf32>) {
    plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
    return
  }
}

// -----

// A variant is a plan of one shape.
module {
  // expected-error @+1 {{expected a variant to be a plan of one shape}}
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 2 : i64, plan.sequence = 4 : i64} {
    module {
    }
  }
}

// -----

// A variant without a rank program.
module {
  // expected-error @+1 {{expected a rank program 'rank'}}
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 2 : i64, plan.sequence = 4 : i64} {
  }
}

// -----

// A launch of the second variant that is no call of the runtime.
module {
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 2 : i64, plan.sequence = 4 : i64} {
    func.func @rank(%x: memref<4xf32>) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
      return
    }
  }
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.batch = 4 : i64, plan.sequence = 4 : i64} {
    func.func @rank(%x: memref<4xf32>) {
      // expected-error @+1 {{expected 'scale' to have 0 integers and then 1 real numbers but got [2]}}
      plan.launch "scale"(%x) -> (%x) params [2] on "compute" : (memref<4xf32>) -> memref<4xf32>
      return
    }
  }
}

// -----

// A forward without its backward.
module {
  // expected-error @+1 {{expected variants in pairs of one shape, 'plan.half' = "forward" and then "backward"}}
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.half = "forward"} {
    func.func @rank(%x: memref<4xf32>) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
      return
    }
  }
}

// -----

// A backward of another shape.
module {
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.half = "forward"} {
    func.func @rank(%x: memref<4xf32>) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
      return
    }
  }
  // expected-error @+1 {{expected variants in pairs of one shape}}
  module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 1, esp = 1>, plan.half = "backward", plan.batch = 2 : i64, plan.sequence = 4 : i64} {
    func.func @rank(%x: memref<4xf32>) {
      plan.launch "scale"(%x) -> (%x) params [2.0] on "compute" : (memref<4xf32>) -> memref<4xf32>
      return
    }
  }
}
