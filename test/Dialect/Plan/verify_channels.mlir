// RUN: moe-opt %s --plan-verify -verify-diagnostics -split-input-file | FileCheck %s

// Two stages of two ranks each: forward and back, on streams of their own.
// CHECK-LABEL: func.func @first
// CHECK: plan.launch "send"(%{{.+}}) -> () collective over <"pp", 2, 2> with 1 on "comm.send.1"
func.func @first(%a: memref<4xf32>, %b: memref<4xf32>) attributes {plan.ranks = array<i64: 0, 2>} {
  plan.launch "send"(%a) -> () collective over <"pp", 2, 2> with 1 on "comm.send.1" : (memref<4xf32>) -> ()
  plan.launch "receive"() -> (%b) collective over <"pp", 2, 2> with 1 on "comm.receive.1" : () -> memref<4xf32>
  return
}
func.func @second(%a: memref<4xf32>, %b: memref<4xf32>) attributes {plan.ranks = array<i64: 2, 2>} {
  plan.launch "receive"() -> (%a) collective over <"pp", 2, 2> with 0 on "comm.receive.0" : () -> memref<4xf32>
  plan.launch "send"(%b) -> () collective over <"pp", 2, 2> with 0 on "comm.send.0" : (memref<4xf32>) -> ()
  return
}

// -----

// Hang: each waits for what the other sends first, since all is on one stream.
func.func @first(%a: memref<4xf32>, %b: memref<4xf32>) attributes {plan.ranks = array<i64: 0, 1>} {
  plan.launch "receive"() -> (%b) collective over <"pp", 2, 1> with 1 on "p2p" : () -> memref<4xf32>
  // expected-error-re @below {{hang: expected all programs to order their collectives alike, but {{.*}} waits for itself}}
  // expected-note @below {{in 'first'}}
  plan.launch "send"(%a) -> () collective over <"pp", 2, 1> with 1 on "p2p" : (memref<4xf32>) -> ()
  return
}
func.func @second(%a: memref<4xf32>, %b: memref<4xf32>) attributes {plan.ranks = array<i64: 1, 1>} {
  plan.launch "receive"() -> (%a) collective over <"pp", 2, 1> with 0 on "p2p" : () -> memref<4xf32>
  // expected-note @below {{in 'second'}}
  plan.launch "send"(%b) -> () collective over <"pp", 2, 1> with 0 on "p2p" : (memref<4xf32>) -> ()
  return
}

// -----

// Sent and received values must have the same type.
func.func @first(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 0, 1>} {
  // expected-note @below {{of 'first' is here}}
  plan.launch "send"(%a) -> () collective over <"pp", 2, 1> with 1 on "comm.send.1" : (memref<4xf32>) -> ()
  return
}
func.func @second(%a: memref<8xf32>) attributes {plan.ranks = array<i64: 1, 1>} {
  // expected-error @below {{with the value (memref<4xf32>) but got (memref<8xf32>) in 'receive' over 'pp' with member 0 on 'comm.receive.0'}}
  plan.launch "receive"() -> (%a) collective over <"pp", 2, 1> with 0 on "comm.receive.0" : () -> memref<8xf32>
  return
}

// -----

// Hang: nobody sends.
func.func @first(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 0, 1>} {
  plan.launch "copy"(%a) -> (%a) on "compute" : (memref<4xf32>) -> memref<4xf32>
  return
}
// expected-note @-4 {{'first' is here}}
func.func @second(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 1, 1>} {
  // expected-error @below {{has no partner in 'first', which ends after 0}}
  plan.launch "receive"() -> (%a) collective over <"pp", 2, 1> with 0 on "comm.receive.0" : () -> memref<4xf32>
  return
}

// -----

// A peer is another member: here the program's ranks are both.
func.func @all(%a: memref<4xf32>) {
  // expected-error @below {{in a program that is for one member of the group, other than the peer, but 'all' is for 1 ranks from 0 on}}
  plan.launch "send"(%a) -> () collective over <"pp", 2, 1> with 0 on "comm.send.0" : (memref<4xf32>) -> ()
  return
}

// -----

func.func @both(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 0, 1>} {
  // expected-error @below {{expected one input or one output of a launch with a peer but got 1 and 1}}
  plan.launch "send"(%a) -> (%a) collective over <"pp", 2, 1> with 1 on "comm.send.0" : (memref<4xf32>) -> memref<4xf32>
  return
}

// -----

func.func @alone(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 0, 1>} {
  // expected-error @below {{expected a peer to be a member of a collective's group but got 2}}
  plan.launch "send"(%a) -> () collective over <"pp", 2, 1> with 2 on "comm.send.0" : (memref<4xf32>) -> ()
  return
}

// -----

// An iteration of the second program has the micro-batches of two of the first: as many micro-batches are left out of both.
// CHECK-LABEL: func.func @ones
func.func @ones(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 0, 1>} {
  plan.loop 41 attributes {micro_batches = 1 : i64} {
    plan.launch "send"(%a) -> () collective over <"pp", 2, 1> with 1 on "comm.send.1" : (memref<4xf32>) -> ()
  }
  plan.launch "send"(%a) -> () collective over <"pp", 2, 1> with 1 on "comm.send.1" : (memref<4xf32>) -> ()
  return
}
func.func @twos(%a: memref<4xf32>) attributes {plan.ranks = array<i64: 1, 1>, plan.inputs = 0 : i64} {
  plan.loop 21 attributes {micro_batches = 2 : i64} {
    plan.launch "receive"() -> (%a) collective over <"pp", 2, 1> with 0 on "comm.receive.0" : () -> memref<4xf32>
    plan.launch "receive"() -> (%a) collective over <"pp", 2, 1> with 0 on "comm.receive.0" : () -> memref<4xf32>
  }
  return
}
