// RUN: moe-opt %s --moe-partition --canonicalize --cse --moe-bucket-parameters="bytes=1000000" | FileCheck %s
// RUN: moe-opt %s --moe-partition --canonicalize --cse --moe-bucket-parameters="bytes=1000000" --moe-differentiate \
// RUN:   --moe-optimize="kind=adam clip-norm=1 decay=0.1" --canonicalize --cse --moe-verify-spmd | FileCheck %s --check-prefix=STEP
// RUN: moe-opt %s --moe-partition --canonicalize --cse --moe-bucket-parameters="zero=1 decays=false bytes=1000000" --moe-differentiate \
// RUN:   --moe-optimize="kind=sgd" --canonicalize --cse --moe-verify-spmd | FileCheck %s --check-prefix=ZERO1
// RUN: moe-opt %s --moe-partition --canonicalize --cse --moe-bucket-parameters="zero=2 decays=false bytes=1000000" \
// RUN:   --moe-accumulate="micro-batches=3" --cse --moe-differentiate --moe-optimize="kind=sgd" --canonicalize --cse --moe-verify-spmd \
// RUN:   | FileCheck %s --check-prefix=ZERO2
// RUN: moe-opt %s --moe-partition --canonicalize --cse --moe-bucket-parameters="zero=3 decays=false bytes=1000000" \
// RUN:   --moe-accumulate="micro-batches=3" --cse --moe-differentiate --moe-optimize="kind=sgd" --canonicalize --cse --moe-verify-spmd \
// RUN:   | FileCheck %s --check-prefix=ZERO3
// RUN: moe-opt %s --moe-partition --canonicalize --cse --moe-bucket-parameters="zero=1 ranks=4 decays=false bytes=1000000" \
// RUN:   --moe-differentiate --moe-optimize="kind=sgd" --canonicalize --cse --moe-verify-spmd | FileCheck %s --check-prefix=HYBRID

// Parameters that do not decay have their own bucket, and so have those of other ranks.
// CHECK-LABEL: func.func @model
// CHECK-SAME: tensor<128xf32> {moe.layout = #moe.layout<[]>, moe.name = "bucket0", moe.pieces
// CHECK-SAME: tensor<8xf32> {moe.layout = #moe.layout<[]>, moe.name = "bucket1", moe.no_decay
// CHECK-SAME: moe.pieces = [{at = 0 : i64, moe.layout = #moe.layout<[]>, moe.name = "g", moe.role = "parameter", type = tensor<8xf32>}]
// CHECK-SAME: tensor<128xf32> {moe.layout = #moe.layout<{{\[}}mp]>, moe.name = "bucket2", moe.pieces = [
// CHECK-SAME: {at = 0 : i64, moe.layout = #moe.layout<[], [mp]>, moe.name = "v", moe.role = "parameter", type = tensor<8x8xf32>},
// CHECK-SAME: {at = 64 : i64, moe.layout = #moe.layout<[mp], []>, moe.name = "w", moe.role = "parameter", type = tensor<8x8xf32>}]
// CHECK: moe.norm
// CHECK: %[[ALL:.+]] = moe.to_varying %{{.+}} over <"dp", 4, 2> : tensor<128xf32>
// CHECK: moe.unpack %[[ALL]] {layouts = [#moe.layout<[], [mp]>, #moe.layout<[mp], []>]} : (tensor<128xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)

// One sum over dp and one update for each bucket.
// STEP-LABEL: func.func @model
// STEP-SAME: moe.name = "bucket2.first", moe.pieces = [{at = 0 : i64, moe.layout = #moe.layout<[], [mp]>, moe.name = "v.first", moe.role = "state", type = tensor<8x8xf32>}
// STEP: %[[PACK:.+]] = moe.pack %{{.+}}, %{{.+}} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<128xf32>
// STEP: %[[SUM:.+]] = moe.all_reduce %[[PACK]] over <"dp", 4, 2>
// STEP-DAG: moe.adam {{.+}} decay = 0.000000e+00{{.*}}tensor<8xf32>
// STEP-DAG: moe.adam {{.+}} %[[SUM]]{{.+}} decay = 1.000000e-01{{.*}}tensor<128xf32>

// A rank has a quarter, and what the group would not divide is filled up with zeros.
// ZERO1-LABEL: func.func @model
// ZERO1-SAME: tensor<64xf32> {moe.layout = #moe.layout<{{\[}}dp]>, moe.name = "bucket0"
// ZERO1-SAME: tensor<64xf32> {moe.layout = #moe.layout<{{\[}}mp, dp]>, moe.name = "bucket1"
// ZERO1-DAG: moe.all_gather %{{.+}} over <"dp", 4, 2> {dim = 0 : i64} : (tensor<64xf32>) -> tensor<256xf32>
// ZERO1-DAG: %[[ZEROS:.+]] = moe.fill {value = 0.000000e+00 : f64} : tensor<128xf32>
// ZERO1: %[[PACK:.+]] = moe.pack %{{.+}}, %{{.+}}, %[[ZEROS]]
// ZERO1: %[[PART:.+]] = moe.reduce_scatter %[[PACK]] over <"dp", 4, 2> {dim = 0 : i64} : (tensor<256xf32>) -> tensor<64xf32>
// ZERO1: moe.sgd %{{.+}}, %[[PART]]
// ZERO1-NOT: moe.all_gather

// Parameters are gathered once, and gradients scattered three times.
// ZERO2-LABEL: func.func @model
// ZERO2-COUNT-2: moe.all_gather
// ZERO2-NOT: moe.all_gather
// ZERO2-COUNT-6: moe.reduce_scatter
// ZERO2-NOT: {{moe.reduce_scatter|moe.all_reduce %.* over <"dp"}}

// Twice for each micro-batch.
// ZERO3-LABEL: func.func @model
// ZERO3-COUNT-12: moe.all_gather
// ZERO3-NOT: moe.all_gather %{{.*}} over <"dp"

// Over two of the four members, and the sums of a part over the two blocks.
// HYBRID-LABEL: func.func @model
// HYBRID-SAME: moe.layout = #moe.layout<{{\[}}mp, dp_2]>, moe.name = "bucket1"
// HYBRID-DAG: moe.all_gather %{{.+}} over <"dp_2", 2, 2>
// HYBRID: %[[PART:.+]] = moe.reduce_scatter %{{.+}} over <"dp_2", 2, 2>
// HYBRID: moe.all_reduce %[[PART]] over <"stride4", 2, 4>
module attributes {moe.parallel = #moe.parallel<world = 8, pp = 1, dp = 4, mp = 2, ep = 1, esp = 1>} {
  func.func @model(%tokens: tensor<32xi32> {moe.below = 16 : i64, moe.name = "tokens", moe.role = "input"},
                   %labels: tensor<32xi32> {moe.name = "labels", moe.role = "input"},
                   %t: tensor<16x8xf32> {moe.name = "t", moe.role = "parameter"},
                   %g: tensor<8xf32> {moe.name = "g", moe.role = "parameter"},
                   %v: tensor<8x16xf32> {moe.name = "v", moe.role = "parameter"},
                   %w: tensor<16x8xf32> {moe.name = "w", moe.role = "parameter"})
      -> (tensor<f32> {moe.name = "loss", moe.role = "loss"}) {
    %x = moe.embedding %tokens, %t : (tensor<32xi32>, tensor<16x8xf32>) -> tensor<32x8xf32>
    %n = moe.norm %x, %g {kind = #moe<norm rms>, eps = 1.0e-5 : f64} : (tensor<32x8xf32>, tensor<8xf32>) -> tensor<32x8xf32>
    %h = moe.linear %n, %v {column = 1 : i64} : (tensor<32x8xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
    %y = moe.linear %h, %w {column = 1 : i64} : (tensor<32x16xf32>, tensor<16x8xf32>) -> tensor<32x8xf32>
    %l = moe.cross_entropy %y, %labels : (tensor<32x8xf32>, tensor<32xi32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
