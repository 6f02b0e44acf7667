// RUN: moe-opt %s -verify-diagnostics -split-input-file

// The dense part covers the world.
// expected-error @+1 {{expected world = pp * dp * mp but got 8 and 1 * 2 * 2 = 4}}
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 2, mp = 2, ep = 2, esp = 2>} {
}

// -----

// No more ranks than the world has.
// expected-error @+1 {{expected world = pp * dp * mp but got 8 and 2 * 4 * 2 = 16}}
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 2, dp = 4, mp = 2, ep = 2, esp = 2>} {
}

// -----

// Ranks that divide sequences are ranks of the dense part, too.
// expected-error @+1 {{expected world = pp * dp * cp * mp but got 8 and 1 * 2 * 4 * 2 = 16}}
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 2, mp = 2, ep = 2, esp = 2, cp = 4>} {
}

// -----

// mp * cp and ep have to nest.
// expected-error @+1 {{expected the group boundaries 1, mp = 2, mp * cp = 4, esp = 1, ep * esp = 6, world / pp = 12, world = 12 to be a chain of divisors, but 4 does not divide 6}}
module attributes {moe.parallel = #moe.parallel<world = 12, pp = 1, dp = 3, mp = 2, ep = 6, esp = 1, cp = 2>} {
}

// -----

// The expert part divides the world.
// expected-error @+1 {{expected pp * ep * esp = 6 to divide the world of 8 ranks}}
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 3, esp = 2>} {
}

// -----

// The expert part has pp stages too.
// expected-error @+1 {{expected pp * ep * esp = 16 to divide the world of 8 ranks}}
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 2, dp = 2, mp = 2, ep = 4, esp = 2>} {
}

// -----

// mp and esp have to nest: neither of 2 and 3 divides the other.
// expected-error @+1 {{expected the group boundaries 1, mp = 2, esp = 3, ep * esp = 6, world / pp = 12, world = 12 to be a chain of divisors, but 2 does not divide 3}}
module attributes {moe.parallel = #moe.parallel<world = 12, pp = 1, dp = 6, mp = 2, ep = 2, esp = 3>} {
}

// -----

// So have mp and ep * esp: 4 is no multiple of 3.
// expected-error @+1 {{to be a chain of divisors, but 3 does not divide 4}}
module attributes {moe.parallel = #moe.parallel<world = 12, pp = 1, dp = 4, mp = 3, ep = 4, esp = 1>} {
}

// -----

// No group without a rank.
// expected-error @+1 {{expected ep to be between 1 and 4096 but got 0}}
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 0, esp = 2>} {
}

// -----

// Nor a world.
// expected-error @+1 {{expected world to be between 1 and 4096 but got 0}}
module attributes {moe.parallel = #moe.parallel<world = 0, pp = 1, dp = 0, mp = 2, ep = 1, esp = 2>} {
}

// -----

// Nor less than none.
// expected-error @+1 {{expected mp to be between 1 and 4096 but got -2}}
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = -2, ep = 2, esp = 2>} {
}

// -----

// A world is bounded, so that products do not overflow.
// expected-error @+1 {{expected world to be between 1 and 4096 but got 8192}}
module attributes {moe.parallel = #moe.parallel<world = 8192, pp = 1, dp = 8192, mp = 1, ep = 1, esp = 1>} {
}

// -----

// A field that is missing.
// expected-error @+1 {{struct is missing required parameter: esp}}
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 4>} {
}

// -----

// A group has a name.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected a group name}}
  %0 = moe.all_reduce %x over <"", 2, 1> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// And members.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected group 'mp' to have a positive size and stride but got 0 and 1}}
  %0 = moe.all_reduce %x over <"mp", 0, 1> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// And a positive stride.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected group 'mp' to have a positive size and stride but got 2 and -1}}
  %0 = moe.all_reduce %x over <"mp", 2, -1> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// And ranks that are 32-bit numbers.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected group 'mp' to have at most 2147483647 ranks between its first and its last but got 65536 with stride 65536}}
  %0 = moe.all_reduce %x over <"mp", 65536, 65536> : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// A layout has the dimensions of its tensor.
// expected-error @+1 {{expected 'moe.layout' to have 2 dimensions but got #moe.layout<[dp]>}}
func.func private @f(tensor<4x8xf32> {moe.layout = #moe.layout<[dp]>})

// -----

// So has that of a result.
// expected-error @+1 {{expected 'moe.layout' to have 2 dimensions but got #moe.layout<[], [], []>}}
func.func private @f(tensor<4x8xf32>) -> (tensor<4x8xf32> {moe.layout = #moe.layout<[], [], []>})

// -----

// A layout is a #moe.layout.
// expected-error @+1 {{expected 'moe.layout' to be a #moe.layout of a ranked tensor or memref but got "dp" on 'tensor<4x8xf32>'}}
func.func private @f(tensor<4x8xf32> {moe.layout = "dp"})

// -----

// It is that of a tensor or memref.
// expected-error @+1 {{expected 'moe.layout' to be a #moe.layout of a ranked tensor or memref but got #moe.layout<> on 'i32'}}
func.func private @f(i32 {moe.layout = #moe.layout<>})

// -----

// The tensor must have a rank.
// expected-error @+1 {{expected 'moe.layout' to be a #moe.layout of a ranked tensor or memref but got #moe.layout<> on 'tensor<*xf32>'}}
func.func private @f(tensor<*xf32> {moe.layout = #moe.layout<>})

// -----

// A name is a string.
// expected-error @+1 {{expected 'moe.name' to be a string but got 3 : i64}}
func.func private @f(tensor<4x8xf32> {moe.name = 3})

// -----

// A role is a string.
// expected-error @+1 {{expected 'moe.role' to be a string but got unit}}
func.func private @f(tensor<4x8xf32> {moe.role})

// -----

// Values have no other attributes of the dialect.
// expected-error @+1 {{expected 'moe.layout', 'moe.name', 'moe.role', 'moe.below', 'moe.sequence', 'moe.fill', 'moe.source', 'moe.no_decay', 'moe.pieces', 'moe.updates', 'moe.counted_bytes' or 'moe.updated' on a value but got 'moe.lay_out'}}
func.func private @f(tensor<4x8xf32> {moe.lay_out = #moe.layout<[], []>})

// -----

// Nor a world.
// expected-error @+1 {{expected 'moe.layout', 'moe.name', 'moe.role', 'moe.below', 'moe.sequence', 'moe.fill', 'moe.source', 'moe.no_decay', 'moe.pieces', 'moe.updates', 'moe.counted_bytes' or 'moe.updated' on a value but got 'moe.parallel'}}
func.func private @f(tensor<4x8xf32> {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>})

// -----

// Nor have results.
// expected-error @+1 {{expected 'moe.layout', 'moe.name', 'moe.role', 'moe.below', 'moe.sequence', 'moe.fill', 'moe.source', 'moe.no_decay', 'moe.pieces', 'moe.updates', 'moe.counted_bytes' or 'moe.updated' on a value but got 'moe.parallel'}}
func.func private @f(tensor<4x8xf32>) -> (tensor<4x8xf32> {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>})

// -----

// A layout belongs to a value, not to an op.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected 'moe.layout' on an argument or result of a function only}}
  %0 = moe.add %x, %x {moe.layout = #moe.layout<[dp]>} : tensor<4xf32>
  return
}

// -----

// Nor to a function.
// expected-error @+1 {{expected 'moe.layout' on an argument or result of a function only}}
func.func private @f() attributes {moe.layout = #moe.layout<[dp]>}

// -----

// Nor to a module.
// expected-error @+1 {{expected 'moe.name' on an argument or result of a function only}}
module attributes {moe.name = "m"} {
}

// -----

// A world belongs to a module or function, not to an op in it.
func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected 'moe.parallel' on a module or function only}}
  %0 = moe.add %x, %x {moe.parallel = #moe.parallel<world = 1, pp = 1, dp = 1, mp = 1, ep = 1, esp = 1>} : tensor<4xf32>
  return
}

// -----

// It is a #moe.parallel.
// expected-error @+1 {{expected 'moe.parallel' to be a #moe.parallel but got 8 : i64}}
module attributes {moe.parallel = 8} {
}

// -----

// Layouts are lists of names.
// expected-error @+1 {{expected valid keyword}}
func.func private @f(tensor<4xf32> {moe.layout = #moe.layout<[8]>})

// -----

// Choices of a schedule belong to the function for which it was made.
// expected-error @+1 {{expected 'moe.schedule_choices' on an argument or result of a function only}}
module attributes {moe.schedule_choices = []} {
}
