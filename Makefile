# From a fresh clone: `make chat`. Everything is made in .venv; a second run starts at once.
# PYTHON=python3.12 chooses another Python, GPU=cuda|vulkan|metal|rocm|sycl builds for a GPU,
# ARGS="..." is handed on to the program or to pytest.

PYTHON ?= python3
ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
else
BIN := .venv/bin
endif

# In the shell, before a command: the library is that of the kernels in $(1), where there are any.
WITH_KERNELS = $(if $(1),folder=$$($(BIN)/python packaging/llama/kernels.py $(1)) || exit 1; \
	LLAMA_CPP_LIB_PATH="$$folder")
COMPUTES := kernels and not model and not gpu
QUICK := tests/specengine/llama tests/specengine/test_exactness.py tests/specengine/cache/test_widths.py \
	tests/specengine/checks tests/specchat/server/test_completions.py tests/specchat/backends/test_recall.py

.PHONY: chat test test-all test-kernels test-kernels-quick test-kernel-sanitizers lint lock package clean runtime dev

chat: runtime
	@$(BIN)/specchat $(ARGS)

# KERNELS=haswell computes with the kernels of another kind of CPU: CONTRIBUTING.md.
test: dev
	@$(call WITH_KERNELS,$(KERNELS)) $(BIN)/python -m pytest -m "not model and not gpu" $(ARGS)

# Downloads models beyond the embedded default; tests that need a GPU skip themselves.
test-all: dev
	@$(BIN)/python -m pytest $(ARGS)

# What computes, in each way that this CPU can; KERNELS="sse42 zen4" leaves out other kernels.
test-kernels: dev
	@names="$(KERNELS)"; failed=; \
	[ -n "$$names" ] || names=$$($(BIN)/python packaging/llama/kernels.py) || exit 1; \
	for name in $$names; do \
	echo "specchat: tests with the kernels $$name"; \
	$(MAKE) -s test KERNELS=$$name ARGS='-q -m "$(COMPUTES)" $(ARGS)' || failed="$$failed $$name"; \
	done; \
	for way in --no-repack --threads=1 --threads=3; do \
	echo "specchat: tests with $$way"; \
	$(BIN)/python -m pytest -q -m "$(COMPUTES)" $$way $(ARGS) || failed="$$failed $$way"; \
	done; \
	[ -z "$$failed" ] || { echo "specchat: tests failed with$$failed" >&2; exit 1; }

# In two minutes, with the one kind of kernels whose build is short: part of .ci/run.
test-kernels-quick: dev
	@$(call WITH_KERNELS,generic) $(BIN)/python -m pytest -m "$(COMPUTES) and not slow" $(QUICK) $(ARGS)

# The kernels of engine/kernels on random shapes; needs a compiler with sanitizers.
test-kernel-sanitizers:
	@tests/specengine/kernels/native/sanitize.sh $(ARGS)

# All four, so that one run tells everything.
lint: dev
	@failed=0; \
	$(BIN)/ruff check || failed=1; \
	$(BIN)/ruff format --check || failed=1; \
	$(BIN)/mypy || failed=1; \
	$(BIN)/lint-imports --no-cache || failed=1; \
	exit $$failed

lock:
	@$(PYTHON) packaging/lock.py $(ARGS)

# Wheel, sdist and desktop builds in dist/, each started where nothing else is: docs/packaging.md.
package:
	@$(PYTHON) packaging/needs.py $(ARGS)
	@$(PYTHON) packaging/setup_env.py
	@$(BIN)/python packaging/package.py $(ARGS)

# The built llama.cpp, models and chats lie outside the checkout and stay.
clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find app engine tests packaging -name __pycache__ -prune -exec rm -rf {} +

runtime:
	@$(PYTHON) packaging/setup_env.py

dev:
	@$(PYTHON) packaging/setup_env.py --dev
