"""torchvision's ResNet-18 on Fashion-MNIST: two groups of parameters, a rate that
changes in each step, BatchNorm.

    gradweir run --workers 2 -- python3 resnet18.py [STEPS]

Four lines, marked "# gradweir", are all that is not in the script of a single
process. Debian has torchvision in python3-torchvision.
"""

import sys

import torch
from torch.utils.data import DataLoader, Subset, TensorDataset
from torchvision.models import resnet18

import fashion_mnist
import gradweir.torch  # gradweir

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 100


def dataset(part):
    images, labels = map(torch.from_numpy, fashion_mnist.load(part))
    return TensorDataset(images.expand(-1, 3, -1, -1), labels)


torch.manual_seed(1)
model = resnet18(num_classes=10)
decayed = [p for p in model.parameters() if p.dim() > 1]
others = [p for p in model.parameters() if p.dim() == 1]  # biases, and those of BatchNorm
optimizer = torch.optim.AdamW([{"params": decayed}, {"params": others, "weight_decay": 0.0}])
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=STEPS)
train, test = dataset("train"), dataset("t10k")
optimizer = gradweir.torch.Optimizer(optimizer, model)  # gradweir
train = Subset(train, range(optimizer.rank, len(train), optimizer.world_size))  # gradweir
loader = DataLoader(train, batch_size=32, shuffle=True, drop_last=True)

for step, (x, y) in zip(range(STEPS), loader):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.report(loss.item(), samples=len(y))  # gradweir
    optimizer.step()
    scheduler.step()
    if step % 10 == 9:
        print(f"step {step}: loss {loss.item():.3f}, lr {scheduler.get_last_lr()[0]:.2e}")

model.eval()
with torch.no_grad():
    x, y = next(iter(DataLoader(test, 1000)))
    print(f"accuracy {(model(x).argmax(1) == y).float().mean().item():.4f} of 1000 images")
