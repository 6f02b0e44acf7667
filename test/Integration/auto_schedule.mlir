// --schedule=auto: its choice, the explanation, and a plan that computes the layer.

// A layer with a capacity: tables of the fastest schedules and of the best of each kind, with the choice in both,
// then the reasons against the others.
// RUN: split-file %s %t
// RUN: moe-compile %t/capacity.mlir --parallel=dp=2,mp=2,ep=2,esp=2 --schedule=auto --cluster=hgx-h100 --explain=- -o %t/capacity.so | FileCheck %s
// CHECK: schedules chosen from: [[#]], of which [[#]] applied, [[#]] simulated, [[#]] too slow by their bound
// CHECK: the fastest (* taken, ~ within the figures' uncertainty):
// CHECK-NEXT: schedule ms exposed% GB MB inside MB between busiest
// CHECK-NEXT: {{^ +\* }}[[CHOSEN:[a-z0-9+:]+]] {{.*}}{{(compute|comm).* [0-9]+%$}}
// CHECK: the best of each kind:
// CHECK-NEXT: schedule
// CHECK-NEXT: {{^ +\* }}[[CHOSEN]] {{ *[0-9]}}
// CHECK: steps of all of the model (tokens and FLOPs of one device):
// CHECK-NEXT: schedule step ms tokens/s TFLOP/s MFU% bubble% exposed% GB
// CHECK-NEXT: {{^ +\* }}[[CHOSEN]] {{ *[0-9.]+ +[0-9]+ +[0-9.]+ +[0-9.]+ +0.0 +[0-9.]+ +[0-9.]+$}}
// CHECK: {{^(the choice is within the figures' uncertainty \([0-9.]+%\) of |the next, ).*}}
// CHECK: not taken:
// CHECK: smart, {{.*}}s2+smart{{.*}}:
// CHECK-NEXT: expected a dropless layer (--dropless) for 'smart'
// CHECK: overlap: {{(pays|does not pay|no measurable difference): [0-9.]+ ms with it .*, [0-9.]+ ms without .*%; the profile.*}}
// CHECK-NEXT: other choices: {{.+}}

// The choice runs, and gives the results of one rank, also if there are as many rows as choices.
// RUN: moe-run %t/capacity.so --verify | FileCheck %s --check-prefix=VERIFY
// RUN: moe-compile %t/dropless.mlir --parallel=dp=2,mp=2,ep=2,esp=2 --schedule=auto --cluster=hgx-h100 --explain=%t/dropless.txt -o %t/dropless.so
// RUN: moe-run %t/dropless.so --verify | FileCheck %s --check-prefix=VERIFY
// VERIFY: verification ok:
// RUN: FileCheck %s --check-prefix=DROPLESS < %t/dropless.txt
// DROPLESS: the best of each kind:
// DROPLESS: smart

// The plan has the name of its schedule, and the explanation.
// RUN: moe-compile %t/dropless.mlir --parallel=dp=4,ep=4 --schedule=auto --cluster=parm-b --emit=plan -o - | FileCheck %s --check-prefix=PLAN
// PLAN: plan.explain = {{.*}}schedule = "[[CHOSEN:[a-z0-9+:]+]]", seconds = {{[^}]*}}verdict = "chosen"
// PLAN-SAME: plan.schedule = "[[CHOSEN]]"

// A model of several layers is also chosen for by whole plans at the stage before plans.
// RUN: moe-compile %t/model.mlir --parallel=dp=4,ep=4 --schedule=auto --cluster=hgx-h100 --emit=spmd -o - | FileCheck %s --check-prefix=SPMD
// SPMD: plan.explain = {{.*}}model_seconds = {{.*}}, plan.schedule = "
// SPMD: func.func @rank(

// JSON for tools.
// RUN: moe-compile %t/capacity.mlir --parallel=dp=2,mp=2,ep=2,esp=2 --schedule=auto --cluster=hgx-h100 --explain=%t/why.json --emit=plan -o %t/plan.mlir
// RUN: %python -m json.tool %t/why.json | FileCheck %s --check-prefix=JSON
// JSON: "applied": [[#]],
// JSON: "candidates": [
// JSON-DAG: "mfu": 0.
// JSON-DAG: "verdict": "chosen"
// JSON-DAG: "verdict": "illegal"
// JSON: "changes": [
// JSON: "complete": true,

// With --exhaustive no candidate is left out, including shadows and schedules that keep less. A given order saves the search for
// one.
// RUN: moe-compile %t/dropless.mlir --parallel=dp=2,ep=2 --schedule=auto --exhaustive --order=program --cluster=hgx-h100 --explain=%t/all.json --emit=plan -o %t/plan.mlir
// RUN: FileCheck %s --check-prefix=ALL --implicit-check-not=dominated < %t/all.json
// ALL: "bounded": 0,
// ALL-DAG: "schedule": "chunks:4+mpipe-s4"
// ALL-DAG: "schedule": "shadow"

// RUN: not moe-compile %t/capacity.mlir --parallel=dp=4,ep=4 --schedule=s1 --cluster=hgx-h100 --explain=- --emit=plan -o %t/plan.mlir 2>&1 | FileCheck %s --check-prefix=NOTHING
// NOTHING: error: --explain needs --schedule=auto or --parallel=auto, and a model with MoE layers: nothing was chosen
// RUN: not moe-compile %t/capacity.mlir --parallel=dp=4,ep=4 --schedule=auto+chunks:2 --cluster=hgx-h100 --emit=plan -o %t/plan.mlir 2>&1 | FileCheck %s --check-prefix=ALONE
// ALONE: error: 'auto' cannot be combined with other parts in --schedule

//--- capacity.mlir
func.func @model(%x: tensor<256x32xf32> {moe.name = "x", moe.role = "input"}, %gate: tensor<32x4xf32> {moe.name = "gate", moe.role = "parameter"},
                 %w1: tensor<4x32x64xf32> {moe.name = "w1", moe.role = "parameter"}, %w2: tensor<4x64x32xf32> {moe.name = "w2", moe.role = "parameter"})
    -> (tensor<256x32xf32> {moe.name = "y", moe.role = "output"}, tensor<f32> {moe.name = "aux", moe.role = "output"}) {
  %y, %aux = moe.layer "layer0" %x gate(%gate) experts(%w1, %w2)
    {top_k = 2 : i64, activation = #moe<activation relu>, capacity_factor = 1.25 : f64}
    : (tensor<256x32xf32>, tensor<32x4xf32>, tensor<4x32x64xf32>, tensor<4x64x32xf32>) -> (tensor<256x32xf32>, tensor<f32>)
  return %y, %aux : tensor<256x32xf32>, tensor<f32>
}

//--- dropless.mlir
func.func @model(%x: tensor<256x32xf32> {moe.name = "x", moe.role = "input"}, %gate: tensor<32x4xf32> {moe.name = "gate", moe.role = "parameter"},
                 %w1: tensor<4x32x64xf32> {moe.name = "w1", moe.role = "parameter"}, %w2: tensor<4x64x32xf32> {moe.name = "w2", moe.role = "parameter"})
    -> (tensor<256x32xf32> {moe.name = "y", moe.role = "output"}, tensor<f32> {moe.name = "aux", moe.role = "output"}) {
  %y, %aux = moe.layer "layer0" %x gate(%gate) experts(%w1, %w2) {top_k = 2 : i64, activation = #moe<activation relu>}
    : (tensor<256x32xf32>, tensor<32x4xf32>, tensor<4x32x64xf32>, tensor<4x64x32xf32>) -> (tensor<256x32xf32>, tensor<f32>)
  return %y, %aux : tensor<256x32xf32>, tensor<f32>
}

//--- model.mlir
func.func @model(%x: tensor<256x32xf32> {moe.name = "x", moe.role = "input"}, %gate: tensor<32x4xf32> {moe.name = "gate", moe.role = "parameter"},
                 %w1: tensor<4x32x64xf32> {moe.name = "w1", moe.role = "parameter"}, %w2: tensor<4x64x32xf32> {moe.name = "w2", moe.role = "parameter"})
    -> (tensor<256x32xf32> {moe.name = "y", moe.role = "output"}) {
  %h, %aux0 = moe.layer "layer0" %x gate(%gate) experts(%w1, %w2) {top_k = 1 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
    : (tensor<256x32xf32>, tensor<32x4xf32>, tensor<4x32x64xf32>, tensor<4x64x32xf32>) -> (tensor<256x32xf32>, tensor<f32>)
  %y, %aux1 = moe.layer "layer1" %h gate(%gate) experts(%w1, %w2) {top_k = 1 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
    : (tensor<256x32xf32>, tensor<32x4xf32>, tensor<4x32x64xf32>, tensor<4x64x32xf32>) -> (tensor<256x32xf32>, tensor<f32>)
  return %y : tensor<256x32xf32>
}
