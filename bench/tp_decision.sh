#!/usr/bin/env bash
# TP=1, TP=2 and two replicas on two GPUs of one host, measured, beside what `vtop plan tp` says of them from TP=1 alone.
# usage: bench/tp_decision.sh OUT MODEL   PYTHON is an interpreter with vLLM and torch, VTOP how vtop is started.
# It serves on 127.0.0.1:8000 and 8001, takes about 15 minutes, and stops what it started. RANKS=2 by default.
set -euo pipefail
out=$1 model=$2 python=${PYTHON:-python3} vtop=${VTOP:-vtop} ranks=${RANKS:-2}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1
pids=()
ended() { for pid in "${pids[@]}"; do kill -INT "$pid" 2>/dev/null || true; done; wait; }
trap ended EXIT

serve() { # NAME PORT GPUS FLAGS…
  CUDA_VISIBLE_DEVICES=$3 "$python" -m vllm.entrypoints.cli.main serve "$model" --served-model-name m --host 127.0.0.1 \
    --port "$2" --load-format dummy --dtype bfloat16 --max-model-len 8192 --max-num-seqs 128 --block-size 16 \
    --no-enable-prefix-caching --enable-mfu-metrics "${@:4}" > "$out/$1.log" 2>&1 < /dev/null &
  pids+=($!)
}

ready() { # NAME PORT PID: returns once it answers; a dead one shows the end of its log
  for ((tries = 0; tries < 1200; tries++)); do
    curl -sf "http://127.0.0.1:$2/health" > /dev/null && return
    kill -0 "$3" 2>/dev/null || break
    sleep 0.25
  done
  tail -20 "$out/$1.log" >&2
  return 1
}

stop() {
  for pid in "${pids[@]}"; do kill -INT "$pid"; done
  wait "${pids[@]}" || true
  pids=()
}

sweep() { # NAME PORT CONCURRENCY: 1,024 tokens in and 256 out
  $vtop sweep --url ":$2" --concurrency "$3" --with warmup=4 -o "$out/$1.jsonl.gz"
}

all=$(seq -s , 0 $((ranks - 1)))
"$python" "$here/all_reduce.py" --ranks "$ranks" --backend "${BACKEND:-nccl}" > "$out/all_reduce.txt"
for tp in 1 "$ranks"; do
  serve "tp$tp" 8000 "$all" --tensor-parallel-size "$tp"
  ready "tp$tp" 8000 "${pids[0]}"
  sweep "tp$tp" 8000 1,4,8,16,32,64
  stop
done
serve replica0 8000 0
serve replica1 8001 1
ready replica0 8000 "${pids[0]}"
ready replica1 8001 "${pids[1]}"
sweep replica0 8000 1,2,4,8,16,32 & half=$! # each takes half of the load
sweep replica1 8001 1,2,4,8,16,32 & other=$!
$vtop record --url :8000 --url :8001 --for 2m -o "$out/replicas.jsonl.gz"
wait "$half" "$other"
stop
$vtop plan tp "$out/tp1.jsonl.gz" --gpus "$ranks" --tokens 1,4,8,16,32,64 --all-reduce "$ranks:$out/all_reduce.txt" \
  --server-log "$out/tp$ranks.log" ${PROFILE:+--profile "$PROFILE"} -o "$out/plan.json"
$vtop compare "$out/tp1.jsonl.gz" "$out/tp$ranks.jsonl.gz" -o "$out/tp1_tp$ranks.md"
