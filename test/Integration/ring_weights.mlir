// Gradients of weights that use a ring's values by another name, behind a gather, stay in the backward of zb-h1.
// RUN: moe-compile %S/models/mixtral.json --whole-model --layers=2 --seq=8 --batch=2 --parallel=pp=2,dp=2,mp=2,ep=2,esp=2 --micro-batches=4 --schedule=baseline+chunks:4,2 --pipeline=zb-h1 -o %t.so
// RUN: moe-run %t.so --verify=exact | FileCheck %s
// CHECK: verification ok
