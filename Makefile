# From a fresh clone: `make chat`. Everything is made in .venv; a second run starts at once.
# PYTHON=python3.12 chooses another Python, GPU=cuda|vulkan|metal|rocm|sycl builds for a GPU,
# ARGS="..." is handed on to the program or to pytest.

PYTHON ?= python3
ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
else
BIN := .venv/bin
endif

.PHONY: chat test test-all lint lock package clean runtime dev

chat: runtime
	@$(BIN)/specchat $(ARGS)

test: dev
	@$(BIN)/python -m pytest -m "not model and not gpu" $(ARGS)

# Downloads models beyond the embedded default; tests that need a GPU skip themselves.
test-all: dev
	@$(BIN)/python -m pytest $(ARGS)

# All three, so that one run tells everything.
lint: dev
	@failed=0; \
	$(BIN)/ruff check || failed=1; \
	$(BIN)/ruff format --check || failed=1; \
	$(BIN)/mypy || failed=1; \
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
