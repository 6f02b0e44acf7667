// Options of experts have no effect on a model without experts, and a warning says so.

// RUN: moe-compile %S/models/llama.json --whole-model --seq=8 --parallel=dp=2,mp=2,ep=2,esp=2 --schedule=s1+chunks:2 --emit=spmd -o %t.s1 2>&1 | FileCheck %s --check-prefix=COMPILE
// COMPILE: moe-compile: warning: the model has no MoE layer, so ep = 2 and esp = 2 have no effect; --parallel=pp=1,dp=2,mp=2 is the same
// COMPILE-NEXT: moe-compile: warning: the model has no MoE layer, so --schedule=s1+chunks:2 has no effect; leave it out
// COMPILE-NOT: warning

// There is one warning for all shapes.
// RUN: moe-compile %S/models/llama.json --whole-model --seq=8,16 --parallel=dp=2,ep=2 --emit=plan -o /dev/null 2>&1 | FileCheck %s --check-prefix=SHAPES
// SHAPES: moe-compile: warning: the model has no MoE layer, so ep = 2 and esp = 1 have no effect; --parallel=pp=1,dp=2,mp=1 is the same
// SHAPES-NOT: warning

// RUN: moe-sim %S/models/llama.json --whole-model --seq=8 --parallel=dp=2,ep=2 --cluster=hgx-h100 2>&1 | FileCheck %s --check-prefix=SIM
// SIM: moe-sim: warning: the model has no MoE layer, so ep = 2 and esp = 1 have no effect

// Options of how experts take tokens have one warning for all shapes.
// RUN: moe-compile %S/models/llama.json --whole-model --seq=8,16 --dropless --max-load=1.5 --emit=plan -o /dev/null 2>&1 | FileCheck %s --check-prefix=FORM
// FORM: llama.json: warning: the model has no MoE layer, so --dropless, --max-load have no effect
// FORM-NOT: warning
// RUN: moe-import %S/models/llama.json --whole-model --capacity-factor=1 -o /dev/null 2>&1 | FileCheck %s --check-prefix=FACTOR
// FACTOR: llama.json: warning: the model has no MoE layer, so --capacity-factor has no effect
// Only the second block of this model has experts.
// RUN: moe-import %S/models/gpt2-moe.json --whole-model --layers=1 --routing-groups=2 --batch=2 --seq=8 -o /dev/null 2>&1 | FileCheck %s --check-prefix=DENSE
// DENSE: gpt2-moe.json: warning: the model has no MoE layer, so --routing-groups has no effect
// RUN: moe-import %S/models/gpt2-moe.json --whole-model --layers=2 --routing-groups=2 --batch=2 --seq=8 -o /dev/null 2>&1 | FileCheck %s --check-prefix=NONE --allow-empty

// RUN: moe-compile %S/models/llama.json --whole-model --seq=8 --parallel=pp=1,dp=2,mp=2 --emit=spmd -o %t.plain 2>&1 | FileCheck %s --check-prefix=NONE --allow-empty
// RUN: moe-compile %S/models/mixtral.json --whole-model --seq=8 --parallel=dp=2,mp=2,ep=2 --schedule=s2 --emit=spmd -o /dev/null 2>&1 | FileCheck %s --check-prefix=NONE --allow-empty
// NONE-NOT: warning

// The same program but for the sizes of the groups.
// RUN: sed 's/ep = 2, esp = 2/ep = 1, esp = 1/; s/"s1+chunks:2"/"baseline"/' %t.s1 > %t.same
// RUN: diff %t.same %t.plain
