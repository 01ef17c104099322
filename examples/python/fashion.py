"""A small convolutional network on Fashion-MNIST, in PyTorch.

    gradweir run --workers 2 -- python3 fashion.py

Four lines, marked "# gradweir", are all that is not in the script of a single
process; without them it trains alone:

    sed '/# gradweir$/d' fashion.py | python3 -
"""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

import fashion_mnist
import gradweir.torch  # gradweir

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 3


def dataset(part):
    return TensorDataset(*map(torch.from_numpy, fashion_mnist.load(part)))


def accuracy(model, data):
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(data, 500))
    return right / len(data)


torch.manual_seed(1)
model = nn.Sequential(
    nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(32 * 4 * 4, 128), nn.ReLU(), nn.Linear(128, 10),
)  # fmt: skip
train, test = dataset("train"), dataset("t10k")
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
optimizer = gradweir.torch.Optimizer(optimizer, model)  # gradweir
train = Subset(train, range(optimizer.rank, len(train), optimizer.world_size))  # gradweir
loader = DataLoader(train, batch_size=64, shuffle=True, drop_last=True)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * len(loader))

for epoch in range(EPOCHS):
    model.train()
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.report(loss.item(), samples=len(y))  # gradweir
        optimizer.step()
        scheduler.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {accuracy(model, test):.4f}")
