# The arguments of Megatron Core's example of Mixtral 8x7B (megatron/core/transformer/moe/README.md of Megatron-LM,
# commit 022bcb5a), with the 256 sequences and 8 stages a device of its table of reference mappings.
GPUS_PER_NODE=8
NNODES=${NNODES:-"8"}
MODEL_ARGS=(
    --disable-bias-linear --swiglu --normalization RMSNorm --untie-embeddings-and-output-weights
    --seq-length 4096 --max-position-embeddings 32768
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336
    --num-attention-heads 32 --group-query-attention --num-query-groups 8
    --init-method-std 0.01 --attention-dropout 0.0 --hidden-dropout 0.0
    --position-embedding-type rope --no-position-embedding --no-masked-softmax-fusion
)
MOE_ARGS="--num-experts 8 --moe-router-topk 2 --moe-router-load-balancing-type aux_loss \
    --moe-aux-loss-coeff 1e-2 --moe-grouped-gemm --moe-permute-fusion --moe-token-dispatcher-type alltoall"
TRAINING_ARGS=(
    --micro-batch-size 1 --global-batch-size 256 --lr 1e-4 --train-iters 500000 # --min-lr 0
    --clip-grad 1.0 --bf16 --overlap-grad-reduce --overlap-param-gather
    --tokenizer-type Llama2Tokenizer --tokenizer-model ${TOKENIZER_MODEL} --data-path $DATA_PATH --split 99990,8,2
    --tensor-model-parallel-size 1
    --pipeline-model-parallel-size 4
    --num-layers-per-virtual-pipeline-stage 1
    --expert-model-parallel-size 8
    --sequence-parallel --use-distributed-optimizer
)
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py \
    ${MODEL_ARGS[@]} $MOE_ARGS ${TRAINING_ARGS[@]}
