"""Makes a model folder that vLLM serves with dummy weights: config.json and a tokenizer that decodes every id.

usage: make_model.py FOLDER        (run by install_vllm.sh in vLLM's environment, which has tokenizers)

Llama's shape, 4 layers, hidden 256, 4,096 ids; 2 KiB of KV per token. A vocabulary smaller than the model's makes
vLLM drop chunks whose token decodes to nothing; hence one word per id.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

IDS = 4096
SPECIALS = ("<|bos|>", "<|eos|>")
LONGEST = 4096

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": IDS,
    "max_position_embeddings": LONGEST,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "torch_dtype": "bfloat16",
}
TOKENIZER_CONFIG: dict[str, Any] = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": SPECIALS[0],
    "eos_token": SPECIALS[1],
    "pad_token": SPECIALS[1],
    "model_max_length": LONGEST,
    "clean_up_tokenization_spaces": False,
    "chat_template": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:",
}


def main(folder: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers  # type: ignore[import-not-found]

    folder.mkdir(parents=True, exist_ok=True)
    words = [*SPECIALS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    words += [f"Ġw{number:x}" for number in range(len(words), IDS)]
    tokenizer = Tokenizer(models.BPE(vocab={word: number for number, word in enumerate(words)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(word, special=True) for word in SPECIALS])
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in (
        ("config.json", CONFIG),
        ("generation_config.json", {"bos_token_id": 0, "eos_token_id": 1}),
        ("tokenizer_config.json", TOKENIZER_CONFIG),  # last: its presence says that the folder is complete
    ):
        (folder / name).write_text(json.dumps(content, indent=1))
    print(f"{IDS} ids in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
