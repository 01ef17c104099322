"""LoRA by peft: the GPT-2 of gpt2.py learns the English of licences.

    gradweir run --workers 2 -- python3 lora.py [STEPS [FILE]]

Four lines, marked "# gradweir", are all that is not in the script of a single
process. Only the adapters are trained, so only they travel. FILE is another text.
"""

import os
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2LMHeadModel

import byte_text
import gradweir.torch  # gradweir

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 100
LENGTH, BATCH = 64, 8

torch.manual_seed(1)
text = byte_text.load(sys.argv[2] if len(sys.argv) > 2 else "/usr/share/common-licenses/GPL-3")
train, test = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]
base = GPT2LMHeadModel.from_pretrained("gpt2-kjv")
config = LoraConfig(r=16, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)
model = get_peft_model(base, config)
model.print_trainable_parameters()
before = byte_text.mean_loss(model, test, LENGTH)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
optimizer = gradweir.torch.Optimizer(optimizer, model)  # gradweir
torch.manual_seed(1 + optimizer.rank)  # gradweir

model.train()
for step in range(STEPS):
    x = byte_text.batch(train, BATCH, LENGTH)
    loss = model(x, labels=x).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.report(loss.item(), samples=len(x))  # gradweir
    optimizer.step()

if os.environ.get("RANK", "0") == "0":
    after = byte_text.mean_loss(model, test, LENGTH)
    print(f"loss {before:.4f} before, {after:.4f} after, of the last tenth of the text")
