// RUN: moe-compile %s --parallel=auto --world=4 --schedule=auto --cluster=hgx-h100 --explain=%t.txt --emit=plan -o - | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY --input-file=%t.txt
// RUN: moe-compile gpt2-moe --whole-model --layers=4 --seq=64 --global-batch=8 --parallel=auto --vary=none --world=4 --optimizer=adam --cluster=hgx-h100 --reference=false --explain=%t.gpt --emit=plan -o - | FileCheck %s --check-prefix=WHOLE
// RUN: FileCheck %s --check-prefix=GPT --input-file=%t.gpt

// The result does not depend on the number of threads.
// RUN: moe-compile gpt2-moe --whole-model --layers=2 --seq=64 --global-batch=16 --parallel=auto --world=2 --schedule=auto --optimizer=adam --cluster=parm-b --reference=false --num-threads=1 --explain=%t.why1 --emit=plan -o %t.threads1
// RUN: moe-compile gpt2-moe --whole-model --layers=2 --seq=64 --global-batch=16 --parallel=auto --world=2 --schedule=auto --optimizer=adam --cluster=parm-b --reference=false --num-threads=4 --explain=%t.why4 --emit=plan -o %t.threads4
// RUN: cmp %t.threads1 %t.threads4
// RUN: cmp %t.why1 %t.why4

// RUN: not moe-compile %s --parallel=auto --emit=plan 2>&1 | FileCheck %s --check-prefix=NO-WORLD
// RUN: not moe-compile %s --parallel=dp=2 --world=2 --emit=plan 2>&1 | FileCheck %s --check-prefix=NO-WORLD
// RUN: not moe-compile %s --parallel=auto --world=8192 --cluster=hgx-h100 --emit=plan 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not moe-compile %s --parallel=auto --world=4 --cluster=hgx-h100 --memory-limit=100 --emit=plan 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: not moe-compile %s --parallel=auto --world=4 --global-batch=4 --emit=plan 2>&1 | FileCheck %s --check-prefix=BATCH

// RUN: moe-compile gpt2-moe --whole-model --layers=2 --seq=64 --batch=4 --parallel=auto --world=4 --cluster=hgx-h100 --reference=false --explain=%t.fast --emit=plan -o /dev/null
// RUN: FileCheck %s --check-prefix=THROUGHPUT --input-file=%t.fast
// RUN: moe-compile gpt2-moe --whole-model --layers=2 --seq=64 --batch=4 --parallel=auto --world=4 --objective=step-time --cluster=hgx-h100 --reference=false --explain=%t.short --emit=plan -o /dev/null
// RUN: FileCheck %s --check-prefix=STEP --input-file=%t.short
// RUN: moe-compile %s --parallel=dp=2,ep=2 --schedule=auto --cluster=hgx-h100 --explain=%t.json --emit=plan -o /dev/null
// RUN: FileCheck %s --check-prefix=TOKENS --input-file=%t.json
// RUN: not moe-compile %s --parallel=dp=2 --objective=throughput --emit=plan 2>&1 | FileCheck %s --check-prefix=CLOSED
// RUN: not moe-compile %s --parallel=auto --world=4 --objective=fast --emit=plan 2>&1 | FileCheck %s --check-prefix=OBJECTIVE

// Groups are sizes for all ranks, and the plan uses them. A small layer exchanges no rows: every rank of a model-parallel group has them all.
// CHECK: #moe.parallel<world = 4, pp = 1, dp = 1, mp = 4, ep = 1, esp = 1>
// CHECK-SAME: plan.explain_parallel
// WHY: groups chosen from: 18, of which 0 illegal, 0 too large
// WHY: taken: pp=1,dp=1,mp=4,ep=1,esp=1
// WHY: schedules chosen from:

// Groups of a whole model are chosen by samples. All candidates have the world's batch: dp times micro-batches is 8.
// WHOLE: #moe.parallel<world = 4, pp = 1, dp = 4, mp = 1, ep = 4, esp = 1>
// GPT: groups chosen from: 25
// GPT: taken: pp=1,dp=4,mp=1,ep=4,esp=1
// GPT: * 1 4 1 4 1 1 2 
// GPT: {{^ *~? *}}2 2 {{[0-9]+ +[0-9]+ +[0-9]+ +}}1 4 

// Without the world's batch, more data-parallel ranks have more tokens in a step: they process more per second, and take longer for a step.
// THROUGHPUT: the best by throughput
// THROUGHPUT-SAME: all in baseline:
// THROUGHPUT-NEXT: pp dp mp ep esp mbs micro est ms step ms tokens/s TFLOP/s MFU% bubble% exposed% GB
// THROUGHPUT-NEXT: * 1 4 {{.*}} 0.0 {{ *[0-9.]+ +[0-9.]+$}}
// STEP: the best by step-time
// STEP-NEXT: tokens/s
// STEP-NEXT: * 1 1 4 
// TOKENS: "tokens_per_second": {{[0-9.]+}},
// CLOSED: error: --objective needs --parallel=auto: with given groups all steps have as many tokens
// OBJECTIVE: error: expected --objective to be throughput or step-time but got 'fast'
// NO-WORLD: error: expected --world=RANKS together with --parallel=auto: each needs the other
// MANY: error: expected --world of at most the 4096 devices of cluster 'hgx-h100' but got 8192
// SMALL: error: no groups of 4 ranks with a plan of at most 100 bytes per rank: the smallest of 18 needs more, that of pp=1,dp={{.*}} parameters,
// BATCH: error: expected --global-batch of at least 1, and with a configuration: the batch of a model graph is fixed
func.func @model(%x: tensor<64x16xf32> {moe.name = "x", moe.role = "input"}, %gate: tensor<16x4xf32> {moe.name = "gate", moe.role = "parameter"},
                 %w1: tensor<4x16x32xf32> {moe.name = "w1", moe.role = "parameter"}, %w2: tensor<4x32x16xf32> {moe.name = "w2", moe.role = "parameter"})
    -> (tensor<64x16xf32> {moe.name = "y", moe.role = "output"}, tensor<f32> {moe.name = "aux", moe.role = "output"}) {
  %y, %aux = moe.layer "layer0" %x gate(%gate) experts(%w1, %w2)
    {top_k = 1 : i64, activation = #moe<activation relu>, capacity_factor = 1.0 : f64}
    : (tensor<64x16xf32>, tensor<16x4xf32>, tensor<4x16x32xf32>, tensor<4x32x16xf32>) -> (tensor<64x16xf32>, tensor<f32>)
  return %y, %aux : tensor<64x16xf32>, tensor<f32>
}
