// RUN: moe-opt %s --plan-order=policy=mpipemoe | FileCheck %s --check-prefix=MPIPE
// RUN: moe-opt %s --plan-order=policy=fastermoe | FileCheck %s --check-prefix=FASTER
// RUN: moe-opt %s --plan-order=policy=program | FileCheck %s --check-prefix=PROGRAM
// RUN: moe-opt %s --plan-order="policy=search cluster=%share/clusters/hgx-h100.json" | FileCheck %s --check-prefix=SEARCH
// RUN: moe-opt %s --plan-order="policy=search cluster=%share/clusters/hgx-h100.json" --plan-assign-streams --plan-assign-memory --plan-verify | FileCheck %s --check-prefix=VERIFY

!a = memref<8x8xf32>
!t = memref<8x8xf32, #plan<space device>>

module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>} {
  // Chunk by chunk in the program. Buffers go along with their first users.
  // MPIPE-LABEL: func.func @chunks
  // MPIPE-NEXT: plan.buffer
  // MPIPE-NEXT: plan.launch "s"{{.*}} on "comm.intra" {{.*}}<0 of 4>
  // MPIPE:      plan.launch "s"{{.*}}<1 of 4>
  // MPIPE:      plan.launch "c"{{.*}} on "compute" {{.*}}<0 of 4>
  // MPIPE-NEXT: plan.launch "r"{{.*}}<0 of 4>
  // MPIPE:      plan.launch "s"{{.*}}<2 of 4>
  // MPIPE:      plan.launch "c"{{.*}}<1 of 4>
  // MPIPE-NEXT: plan.launch "r"{{.*}}<1 of 4>
  // MPIPE:      plan.launch "s"{{.*}}<3 of 4>
  // MPIPE:      plan.launch "c"{{.*}}<2 of 4>
  // MPIPE-NEXT: plan.launch "r"{{.*}}<2 of 4>
  // MPIPE:      plan.launch "c"{{.*}}<3 of 4>
  // MPIPE-NEXT: plan.launch "r"{{.*}}<3 of 4>
  // MPIPE-NEXT: return
  // FASTER-LABEL: func.func @chunks
  // FASTER:      plan.launch "s"{{.*}}<0 of 4>
  // FASTER:      plan.launch "s"{{.*}}<1 of 4>
  // FASTER:      plan.launch "s"{{.*}}<2 of 4>
  // FASTER:      plan.launch "s"{{.*}}<3 of 4>
  // FASTER:      plan.launch "c"{{.*}}<0 of 4>
  // FASTER-NEXT: plan.launch "r"{{.*}}<0 of 4>
  // FASTER:      plan.launch "c"{{.*}}<1 of 4>
  // FASTER-NEXT: plan.launch "r"{{.*}}<1 of 4>
  // FASTER:      plan.launch "c"{{.*}}<2 of 4>
  // FASTER-NEXT: plan.launch "r"{{.*}}<2 of 4>
  // FASTER:      plan.launch "c"{{.*}}<3 of 4>
  // FASTER-NEXT: plan.launch "r"{{.*}}<3 of 4>
  // FASTER-NEXT: return
  // PROGRAM-LABEL: func.func @chunks
  // PROGRAM: plan.launch "s"{{.*}} on "comm.intra" {{.*}}<0 of 4>
  // PROGRAM: plan.launch "c"{{.*}} on "compute" {{.*}}<0 of 4>
  // PROGRAM: plan.launch "r"{{.*}}<0 of 4>
  // PROGRAM: plan.launch "s"{{.*}}<1 of 4>
  // SEARCH-LABEL: func.func @chunks
  // SEARCH: plan.launch "s"{{.*}}<0 of 4>
  // SEARCH-DAG: plan.launch "c"{{.*}}<0 of 4>
  // SEARCH-DAG: plan.launch "s"{{.*}}<1 of 4>
  // SEARCH-DAG: plan.launch "c"{{.*}}<1 of 4>
  // SEARCH-DAG: plan.launch "s"{{.*}}<2 of 4>
  // SEARCH: plan.launch "s"{{.*}}<3 of 4>
  // SEARCH: plan.launch "r"{{.*}}<0 of 4>
  // VERIFY-LABEL: func.func @chunks
  func.func @chunks(%a0: !a, %a1: !a, %a2: !a, %a3: !a, %r0: !a, %r1: !a, %r2: !a, %r3: !a) attributes {plan.inputs = 4 : i64} {
    %0 = plan.buffer : !t
    plan.launch "s"(%a0) -> (%0) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<0 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!a) -> !t
    %1 = plan.buffer : !t
    plan.launch "c"(%0) -> (%1) {label = "layer0", chunk = #moe.chunk<0 of 4>, cost = #plan.cost<matrix, flops = 1.0e9, gemm = [1, 512, 1024, 1024]>} : (!t) -> !t
    plan.launch "r"(%1) -> (%r0) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<0 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!t) -> !a
    %2 = plan.buffer : !t
    plan.launch "s"(%a1) -> (%2) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<1 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!a) -> !t
    %3 = plan.buffer : !t
    plan.launch "c"(%2) -> (%3) {label = "layer0", chunk = #moe.chunk<1 of 4>, cost = #plan.cost<matrix, flops = 1.0e9, gemm = [1, 512, 1024, 1024]>} : (!t) -> !t
    plan.launch "r"(%3) -> (%r1) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<1 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!t) -> !a
    %4 = plan.buffer : !t
    plan.launch "s"(%a2) -> (%4) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<2 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!a) -> !t
    %5 = plan.buffer : !t
    plan.launch "c"(%4) -> (%5) {label = "layer0", chunk = #moe.chunk<2 of 4>, cost = #plan.cost<matrix, flops = 1.0e9, gemm = [1, 512, 1024, 1024]>} : (!t) -> !t
    plan.launch "r"(%5) -> (%r2) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<2 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!t) -> !a
    %6 = plan.buffer : !t
    plan.launch "s"(%a3) -> (%6) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<3 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!a) -> !t
    %7 = plan.buffer : !t
    plan.launch "c"(%6) -> (%7) {label = "layer0", chunk = #moe.chunk<3 of 4>, cost = #plan.cost<matrix, flops = 1.0e9, gemm = [1, 512, 1024, 1024]>} : (!t) -> !t
    plan.launch "r"(%7) -> (%r3) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<3 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!t) -> !a
    return
  }

  // Two places for what comes in, and for what goes out: the third exchange waits for the first product.
  // MPIPE-LABEL: func.func @ring_of_2
  // MPIPE: plan.launch "s"{{.*}}<0 of 4>
  // MPIPE: plan.launch "s"{{.*}}<1 of 4>
  // MPIPE: plan.launch "c"{{.*}}<0 of 4>
  // MPIPE: plan.launch "r"{{.*}}<0 of 4>
  // MPIPE: plan.launch "s"{{.*}}<2 of 4>
  // FASTER-LABEL: func.func @ring_of_2
  // FASTER:      plan.launch "s"{{.*}}<0 of 4>
  // FASTER:      plan.launch "s"{{.*}}<1 of 4>
  // FASTER:      plan.launch "c"{{.*}}<0 of 4>
  // FASTER:      plan.launch "s"{{.*}}<2 of 4>
  // FASTER:      plan.launch "c"{{.*}}<1 of 4>
  // FASTER:      plan.launch "s"{{.*}}<3 of 4>
  // FASTER-NEXT: plan.launch "r"{{.*}}<0 of 4>
  // FASTER-NEXT: plan.launch "r"{{.*}}<1 of 4>
  // FASTER:      plan.launch "c"{{.*}}<2 of 4>
  // FASTER-NEXT: plan.launch "r"{{.*}}<2 of 4>
  // PROGRAM-LABEL: func.func @ring_of_2
  // PROGRAM: plan.launch "s"{{.*}}<0 of 4>
  // PROGRAM: plan.launch "c"{{.*}}<0 of 4>
  // SEARCH-LABEL: func.func @ring_of_2
  // VERIFY-LABEL: func.func @ring_of_2
  // VERIFY-SAME: plan.arenas = {device = 768 : i64
  func.func @ring_of_2(%a0: !a, %a1: !a, %a2: !a, %a3: !a, %r0: !a, %r1: !a, %r2: !a, %r3: !a) attributes {plan.inputs = 4 : i64} {
    %0 = plan.buffer {ring = #moe.ring<"in", 2>} : !t
    plan.launch "s"(%a0) -> (%0) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<0 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!a) -> !t
    %1 = plan.buffer {ring = #moe.ring<"out", 2>} : !t
    plan.launch "c"(%0) -> (%1) {label = "layer0", chunk = #moe.chunk<0 of 4>, cost = #plan.cost<matrix, flops = 1.0e9, gemm = [1, 512, 1024, 1024]>} : (!t) -> !t
    plan.launch "r"(%1) -> (%r0) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<0 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!t) -> !a
    %2 = plan.buffer {ring = #moe.ring<"in", 2>} : !t
    plan.launch "s"(%a1) -> (%2) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<1 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!a) -> !t
    %3 = plan.buffer {ring = #moe.ring<"out", 2>} : !t
    plan.launch "c"(%2) -> (%3) {label = "layer0", chunk = #moe.chunk<1 of 4>, cost = #plan.cost<matrix, flops = 1.0e9, gemm = [1, 512, 1024, 1024]>} : (!t) -> !t
    plan.launch "r"(%3) -> (%r1) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<1 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!t) -> !a
    %4 = plan.buffer {ring = #moe.ring<"in", 2>} : !t
    plan.launch "s"(%a2) -> (%4) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<2 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!a) -> !t
    %5 = plan.buffer {ring = #moe.ring<"out", 2>} : !t
    plan.launch "c"(%4) -> (%5) {label = "layer0", chunk = #moe.chunk<2 of 4>, cost = #plan.cost<matrix, flops = 1.0e9, gemm = [1, 512, 1024, 1024]>} : (!t) -> !t
    plan.launch "r"(%5) -> (%r2) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<2 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!t) -> !a
    %6 = plan.buffer {ring = #moe.ring<"in", 2>} : !t
    plan.launch "s"(%a3) -> (%6) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<3 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!a) -> !t
    %7 = plan.buffer {ring = #moe.ring<"out", 2>} : !t
    plan.launch "c"(%6) -> (%7) {label = "layer0", chunk = #moe.chunk<3 of 4>, cost = #plan.cost<matrix, flops = 1.0e9, gemm = [1, 512, 1024, 1024]>} : (!t) -> !t
    plan.launch "r"(%7) -> (%r3) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<3 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!t) -> !a
    return
  }

  // One place each: all exchanges first would wait for a product that waits for an exchange behind them, so R goes before S.
  // MPIPE-LABEL: func.func @ring_of_1
  // MPIPE: plan.launch "s"{{.*}}<0 of 4>
  // MPIPE: plan.launch "c"{{.*}}<0 of 4>
  // MPIPE: plan.launch "s"{{.*}}<1 of 4>
  // MPIPE: plan.launch "r"{{.*}}<0 of 4>
  // MPIPE: plan.launch "c"{{.*}}<1 of 4>
  // MPIPE: plan.launch "s"{{.*}}<2 of 4>
  // FASTER-LABEL: func.func @ring_of_1
  // FASTER: plan.launch "s"{{.*}}<0 of 4>
  // FASTER: plan.launch "c"{{.*}}<0 of 4>
  // FASTER: plan.launch "s"{{.*}}<1 of 4>
  // FASTER: plan.launch "r"{{.*}}<0 of 4>
  // FASTER: plan.launch "c"{{.*}}<1 of 4>
  // FASTER: plan.launch "s"{{.*}}<2 of 4>
  // FASTER: plan.launch "r"{{.*}}<1 of 4>
  // PROGRAM-LABEL: func.func @ring_of_1
  // PROGRAM: plan.launch "s"{{.*}}<0 of 4>
  // SEARCH-LABEL: func.func @ring_of_1
  // VERIFY-LABEL: func.func @ring_of_1
  // VERIFY-SAME: plan.arenas = {device = 512 : i64
  func.func @ring_of_1(%a0: !a, %a1: !a, %a2: !a, %a3: !a, %r0: !a, %r1: !a, %r2: !a, %r3: !a) attributes {plan.inputs = 4 : i64} {
    %0 = plan.buffer {ring = #moe.ring<"in", 1>} : !t
    plan.launch "s"(%a0) -> (%0) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<0 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!a) -> !t
    %1 = plan.buffer {ring = #moe.ring<"out", 1>} : !t
    plan.launch "c"(%0) -> (%1) {label = "layer0", chunk = #moe.chunk<0 of 4>, cost = #plan.cost<matrix, flops = 1.0e9, gemm = [1, 512, 1024, 1024]>} : (!t) -> !t
    plan.launch "r"(%1) -> (%r0) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<0 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!t) -> !a
    %2 = plan.buffer {ring = #moe.ring<"in", 1>} : !t
    plan.launch "s"(%a1) -> (%2) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<1 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!a) -> !t
    %3 = plan.buffer {ring = #moe.ring<"out", 1>} : !t
    plan.launch "c"(%2) -> (%3) {label = "layer0", chunk = #moe.chunk<1 of 4>, cost = #plan.cost<matrix, flops = 1.0e9, gemm = [1, 512, 1024, 1024]>} : (!t) -> !t
    plan.launch "r"(%3) -> (%r1) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<1 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!t) -> !a
    %4 = plan.buffer {ring = #moe.ring<"in", 1>} : !t
    plan.launch "s"(%a2) -> (%4) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<2 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!a) -> !t
    %5 = plan.buffer {ring = #moe.ring<"out", 1>} : !t
    plan.launch "c"(%4) -> (%5) {label = "layer0", chunk = #moe.chunk<2 of 4>, cost = #plan.cost<matrix, flops = 1.0e9, gemm = [1, 512, 1024, 1024]>} : (!t) -> !t
    plan.launch "r"(%5) -> (%r2) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<2 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!t) -> !a
    %6 = plan.buffer {ring = #moe.ring<"in", 1>} : !t
    plan.launch "s"(%a3) -> (%6) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<3 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!a) -> !t
    %7 = plan.buffer {ring = #moe.ring<"out", 1>} : !t
    plan.launch "c"(%6) -> (%7) {label = "layer0", chunk = #moe.chunk<3 of 4>, cost = #plan.cost<matrix, flops = 1.0e9, gemm = [1, 512, 1024, 1024]>} : (!t) -> !t
    plan.launch "r"(%7) -> (%r3) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<3 of 4>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!t) -> !a
    return
  }

  // Exchanges first in the program, which a ring of one place does not allow: that order is repaired. The product of a
  // weight gradient, which no exchange needs, is done during the last one.
  // PROGRAM-LABEL: func.func @repaired
  // PROGRAM: plan.launch "s"{{.*}}<0 of 2>
  // PROGRAM: plan.launch "w"{{.*}}<0 of 2>
  // PROGRAM: plan.launch "c"{{.*}}<0 of 2>
  // PROGRAM: plan.launch "s"{{.*}}<1 of 2>
  // MPIPE-LABEL: func.func @repaired
  // MPIPE: plan.launch "s"{{.*}}<0 of 2>
  // MPIPE: plan.launch "c"{{.*}}<0 of 2>
  // MPIPE: plan.launch "s"{{.*}}<1 of 2>
  // FASTER-LABEL: func.func @repaired
  // FASTER: plan.launch "s"{{.*}}<0 of 2>
  // FASTER: plan.launch "c"{{.*}}<0 of 2>
  // SEARCH-LABEL: func.func @repaired
  // SEARCH: plan.launch "s"{{.*}}<1 of 2>
  // SEARCH: plan.launch "c"{{.*}}<1 of 2>
  // SEARCH: plan.launch "w"{{.*}}<1 of 2>
  // VERIFY-LABEL: func.func @repaired
  func.func @repaired(%a0: !a, %a1: !a, %r0: !a, %r1: !a, %v0: !a, %v1: !a) attributes {plan.inputs = 2 : i64} {
    %0 = plan.buffer {ring = #moe.ring<"in", 1>} : !t
    %1 = plan.buffer {ring = #moe.ring<"in", 1>} : !t
    %2 = plan.buffer : !t
    %3 = plan.buffer : !t
    plan.launch "s"(%a0) -> (%0) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<0 of 2>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!a) -> !t
    plan.launch "s"(%a1) -> (%1) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<1 of 2>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!a) -> !t
    plan.launch "w"(%0) -> (%v0) {label = "layer0", chunk = #moe.chunk<0 of 2>, cost = #plan.cost<matrix, flops = 1.0e9, gemm = [1, 512, 1024, 1024]>} : (!t) -> !a
    plan.launch "c"(%0) -> (%2) {label = "layer0", chunk = #moe.chunk<0 of 2>, cost = #plan.cost<matrix, flops = 1.0e9, gemm = [1, 512, 1024, 1024]>} : (!t) -> !t
    plan.launch "w"(%1) -> (%v1) {label = "layer0", chunk = #moe.chunk<1 of 2>, cost = #plan.cost<matrix, flops = 1.0e9, gemm = [1, 512, 1024, 1024]>} : (!t) -> !a
    plan.launch "c"(%1) -> (%3) {label = "layer0", chunk = #moe.chunk<1 of 2>, cost = #plan.cost<matrix, flops = 1.0e9, gemm = [1, 512, 1024, 1024]>} : (!t) -> !t
    plan.launch "r"(%2) -> (%r0) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<0 of 2>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!t) -> !a
    plan.launch "r"(%3) -> (%r1) collective over <"ep", 2, 1> {label = "layer0", chunk = #moe.chunk<1 of 2>, cost = #plan.cost<network, collective = all_to_all, payload = 4194304>} : (!t) -> !a
    return
  }
}
