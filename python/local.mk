# The Python front end. Its modules are installed as they are, and used in place
# by PYTHONPATH=python GRADWEIR_LIBRARY=build/libgradweir.so.0.
GW_MODULES = \
	%D%/gradweir/__init__.py \
	%D%/gradweir/checkpoint.py \
	%D%/gradweir/errors.py \
	%D%/gradweir/job.py \
	%D%/gradweir/lanes.py \
	%D%/gradweir/library.py \
	%D%/gradweir/numpy.py \
	%D%/gradweir/py.typed \
	%D%/gradweir/training.py
GW_TORCH_MODULES = \
	%D%/gradweir/torch/__init__.py \
	%D%/gradweir/torch/backend.py \
	%D%/gradweir/torch/exchange.py \
	%D%/gradweir/torch/forward.py \
	%D%/gradweir/torch/hooks.py \
	%D%/gradweir/torch/local.py \
	%D%/gradweir/torch/optimizer.py \
	%D%/gradweir/torch/rules.py \
	%D%/gradweir/torch/servers.py \
	%D%/gradweir/torch/staging.py \
	%D%/gradweir/torch/state.py \
	%D%/gradweir/torch/tensors.py \
	%D%/gradweir/torch/watch.py \
	%D%/gradweir/torch/worker.py
EXTRA_DIST += $(GW_MODULES) $(GW_TORCH_MODULES) %D%/configure.m4 \
	%D%/pyproject.toml %D%/README.md %D%/check.sh %D%/wheel.sh
if HAVE_PYTHON
gwpythondir = $(pythondir)/gradweir
gwpython_DATA = $(GW_MODULES)
gwpythontorchdir = $(pythondir)/gradweir/torch
gwpythontorch_DATA = $(GW_TORCH_MODULES)
endif

examplepythondir = $(exampledir)/python
dist_examplepython_DATA = \
	examples/python/byte_text.py \
	examples/python/fashion.py \
	examples/python/fashion_mnist.py \
	examples/python/gpt2.py \
	examples/python/jax_mlp.py \
	examples/python/keras_mlp.py \
	examples/python/lora.py \
	examples/python/numpy_line.py \
	examples/python/resnet18.py

# One wheel with the program and the library in it; needs python3 and PyPI.
wheel: gradweir$(EXEEXT) libgradweir.so
	@PYTHON='$(PYTHON)' $(SHELL) '$(abs_srcdir)/%D%/wheel.sh'
# the tests and examples with PyPI's newest torch and transformers
check-python: gradweir$(EXEEXT) libgradweir.so
	@GW_PYTHON='$(PYTHON)' $(SHELL) '$(abs_srcdir)/%D%/check.sh'
.PHONY: check-python wheel
