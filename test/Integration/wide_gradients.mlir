// Gradients of f32 beside a model of 16 bits. Micro-batches add to them in place, and ranks and the optimizer read f32.

// RUN: moe-compile %S/models/mixtral.json --whole-model --batch=2 --seq=8 --dtype=bf16 --grad-dtype=f32 --micro-batches=2 --parallel=dp=2,ep=2 --optimizer=adam --clip-norm=1 --zero --emit=spmd --reference=false -o - | FileCheck %s --check-prefix=SPMD --implicit-check-not="moe.all_reduce {{.*}}bf16" --implicit-check-not="moe.reduce_scatter {{.*}}bf16" --implicit-check-not="moe.sum_squares {{.*}}bf16"
// SPMD-DAG: moe.grouped_matmul_wgrad {{.*}} addend({{.*}}) {{.*}} -> tensor<2x24x40xf32>
// SPMD-DAG: moe.matmul_wgrad {{.*}} addend({{.*}}) {{.*}} -> tensor<24x24xf32>
// SPMD-DAG: moe.norm_wgrad {{.*}} addend({{.*}}) {{.*}} -> tensor<24xf32>
// SPMD-DAG: moe.embedding_grad {{.*}} addend({{.*}}) {{.*}} -> tensor<40x24xf32>
// SPMD-DAG: moe.reduce_scatter {{.*}} : (tensor<{{[0-9]+}}xf32>) -> tensor<{{[0-9]+}}xf32>

// Compares groups, stages and types with the reference.
// RUN: moe-compile %S/models/mixtral.json --whole-model --batch=2 --seq=8 --dtype=bf16 --grad-dtype=f32 --micro-batches=2 --parallel=dp=2,ep=2 --optimizer=adam --clip-norm=1 --zero -o %t.zero.so
// RUN: moe-run %t.zero.so --verify --iters=2 | FileCheck %s --check-prefix=VERIFY
// RUN: moe-compile %S/models/gpt-oss.json --whole-model --batch=2 --seq=8 --dtype=f16 --grad-dtype=f32 --micro-batches=4 --parallel=pp=2,dp=2,mp=2,ep=2 -o %t.stages.so
// RUN: moe-run %t.stages.so --verify | FileCheck %s --check-prefix=VERIFY
// RUN: moe-compile %S/models/gpt2-moe.json --whole-model --batch=2 --seq=8 --dtype=bf16 --grad-dtype=f32 --micro-batches=3 --parallel=dp=2,mp=2,ep=2,esp=2 --schedule=s1+chunks:2 --dropless -o %t.chunks.so
// RUN: moe-run %t.chunks.so --verify | FileCheck %s --check-prefix=VERIFY
// VERIFY: verification ok

// A gradient takes 4 bytes for each parameter of 2 bytes.
// RUN: moe-compile mixtral-8x7b --layers=1 --seq=64 --dtype=bf16 --grad-dtype=f32 --parallel=dp=8,ep=8 --cluster=hgx-h100 --emit=plan --reference=false -o - | FileCheck %s --check-prefix=PLAN
// PLAN: role = "gradient"{{.*}}memref<{{.*}}xf32>
