"""GPT-2 of transformers, small, on the bytes of the King James Bible.

    gradweir run --workers 2 -- python3 gpt2.py [STEPS [FILE]]

Four lines, marked "# gradweir", are all that is not in the script of a single
process. The model is saved in gpt2-kjv/, for lora.py. Another text is FILE.
"""

import os
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import byte_text
import gradweir.torch  # gradweir

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 400
WARM = STEPS // 10
LENGTH, BATCH = 64, 8

torch.manual_seed(1)
text = byte_text.load(sys.argv[2] if len(sys.argv) > 2 else None)
train, test = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]
config = GPT2Config(
    vocab_size=256, n_positions=LENGTH, n_embd=128, n_layer=4, n_head=4,
    bos_token_id=0, eos_token_id=0,
)  # fmt: skip
model = GPT2LMHeadModel(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
optimizer = gradweir.torch.Optimizer(optimizer, model)  # gradweir
torch.manual_seed(1 + optimizer.rank)  # gradweir
warm, cool = torch.optim.lr_scheduler.LinearLR, torch.optim.lr_scheduler.CosineAnnealingLR
scheduler = torch.optim.lr_scheduler.SequentialLR(
    optimizer, [warm(optimizer, 0.1, total_iters=WARM), cool(optimizer, STEPS - WARM)], [WARM]
)

model.train()
for step in range(STEPS):
    x = byte_text.batch(train, BATCH, LENGTH)
    loss = model(x, labels=x).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.report(loss.item(), samples=len(x))  # gradweir
    optimizer.step()
    scheduler.step()

if os.environ.get("RANK", "0") == "0":
    print(f"loss {byte_text.mean_loss(model, test, LENGTH):.4f} of the last tenth of the text")
    model.save_pretrained("gpt2-kjv")
