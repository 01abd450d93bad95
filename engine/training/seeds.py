"""Questions for the training text: forms of our own with words of our own filled in.

None of them is in bench/prompts.jsonl or bench/chats.jsonl, by which the head is judged.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from training.seed_words import (
    ANIMALS,
    CONCEPTS,
    FORMATS,
    LANGUAGES,
    NAMES,
    OBJECTS,
    PEOPLE,
    PLACES,
    PROBLEMS,
    SENTENCES,
    TASKS,
    TECHNICAL,
    VIETNAMESE_FORMS,
    VIETNAMESE_TOPICS,
)

Form = Callable[[random.Random], str]


def question(rng: random.Random) -> str:
    """A question, of a kind drawn from `_KINDS`."""
    kinds, weights = zip(*_KINDS, strict=True)
    return str(rng.choices(kinds, weights)[0](rng))


def _explain(rng: random.Random) -> str:
    form = rng.choice(
        (
            "What is {c}?",
            "Explain {c} in simple terms.",
            "Explain {c} to {p}.",
            "How does {c} work?",
            "Why is {c} important?",
            "Give me three interesting facts about {c}.",
            "What are the main advantages and disadvantages of {c}?",
            "Describe the history of {c} in one paragraph.",
            "What is the difference between {c} and {d}?",
            "Give an example of {c} from everyday life.",
            "List five common misunderstandings about {c}.",
            "Tell me about {c}.",
        )
    )
    c, d = rng.sample(CONCEPTS + TECHNICAL, 2)
    return form.format(c=c, d=d, p=rng.choice(PEOPLE))


def _chat(rng: random.Random) -> str:
    form = rng.choice(
        (
            "Hi! {s}",
            "{s} What should I do?",
            "{s} Can you give me some advice?",
            "How can I {t}?",
            "What is the best way to {t}?",
            "Give me some tips to {t}.",
            "I want to {t}, but I don't know where to start.",
            "Make a checklist for someone who wants to {t}.",
            "My friend {n} wants to {t}. How can I help?",
            "Can you recommend something to do in {l}?",
            "Is it hard to {t}?",
            "Write a step-by-step guide on how to {t}.",
        )
    )
    return form.format(
        s=rng.choice(PROBLEMS), t=rng.choice(TASKS), n=rng.choice(NAMES), l=rng.choice(PLACES)
    )


def _write(rng: random.Random) -> str:
    form = rng.choice(
        (
            "Write a short story about {a} who finds {o} in {l}.",
            "Write a poem about {o}.",
            "Write an email to {p} about {o}.",
            "Write a letter from {n} to {p}.",
            "Describe {l} in the early morning.",
            "Write a product description for {o}.",
            "Write a dialogue between {a} and {p}.",
            "Write the opening paragraph of a novel set in {l}.",
            "Write a thank-you note to {p} for {o}.",
            "Write a speech by {n} about {c}.",
            "Write a blog post about {c}.",
            "Write a review of {o}.",
        )
    )
    return form.format(
        a=rng.choice(ANIMALS),
        o=rng.choice(OBJECTS),
        l=rng.choice(PLACES),
        p=rng.choice(PEOPLE),
        n=rng.choice(NAMES),
        c=rng.choice(CONCEPTS),
    )


def _code(rng: random.Random) -> str:
    task = rng.choice(
        (
            "sorts a list of {k} by {f}",
            "counts how often each {f} occurs in a list of {k}",
            "returns the {k} with the largest {f}",
            "reads {k} from a CSV file and prints the average {f}",
            "removes duplicates from a list of {k}",
            "checks whether a {f} is valid",
            "groups {k} by {f}",
            "converts a list of {k} to a dictionary keyed by {f}",
            "finds the median {f} of the {k}",
            "merges two sorted lists of {k}",
            "computes the factorial of a number",
            "finds all prime numbers below n",
            "computes the n-th Fibonacci number without recursion",
            "counts the vowels in a string",
            "flattens a nested list",
            "implements a queue with two stacks",
            "finds the longest common prefix of some strings",
            "sends the {k} to a web service and retries on failure",
            "rotates a matrix by ninety degrees",
            "implements quicksort for {k}",
        )
    ).format(k=rng.choice(_RECORDS), f=rng.choice(_FIELDS))
    form = rng.choice(
        (
            "Write a {l} function that {t}.",
            "Write a {l} program that {t}, with comments.",
            "Show me how to write a {l} function that {t}.",
            "Write a {l} class for {k} with a method that {t}.",
            "I need {l} code that {t}. Explain it line by line.",
            "Write unit tests for a {l} function that {t}.",
        )
    )
    return form.format(l=rng.choice(LANGUAGES), t=task, k=rng.choice(_RECORDS))


def _edit(rng: random.Random) -> str:
    code = _snippet(rng)
    order = rng.choice(
        (
            "Add a docstring to this function and return it unchanged otherwise.",
            "Add type hints to this code.",
            "Rename the variable `result` to `output` in this code and return the whole code.",
            "Add error handling to this code.",
            "Explain what this code does, then repeat it.",
            "Add a comment to each line of this code.",
            "Print the result at the end. Return the complete code.",
            "Find the bug in this code, if there is one, and return the corrected code.",
        )
    )
    return f"{order}\n```\n{code}\n```"


def _snippet(rng: random.Random) -> str:
    k, f, n = rng.choice(_RECORDS), rng.choice(_FIELDS), rng.randint(2, 99)
    form = rng.choice(
        (
            "def total_{f}({k}):\n    result = 0\n    for item in {k}:\n"
            '        result += item["{f}"]\n    return result',
            "def find_{f}({k}, value):\n    for index, item in enumerate({k}):\n"
            "        if item.{f} == value:\n            return index\n    return None",
            "class {K}:\n    def __init__(self):\n        self.{f} = {n}\n\n"
            "    def increase(self, amount):\n        self.{f} += amount\n"
            "        return self.{f}\n\n    def reset(self):\n        self.{f} = 0",
            "function first{K}({k}) {{\n  const result = [];\n"
            "  for (let i = 0; i < {n}; i++) {{\n    result.push({k}[i].{f});\n  }}\n"
            "  return result;\n}}",
            "{k}:\n  {f}: {n}\n  enabled: true\n  retries: 3\nlogging:\n  level: info",
            "[{k}]\n{f} = {n}\ntimeout = 30\n\n[paths]\ninput = data/{k}.csv\noutput = out",
            "SELECT {f}, COUNT(*) AS result\nFROM {k}\nWHERE {f} > {n}\nGROUP BY {f};",
        )
    )
    return form.format(k=k, K=k.capitalize(), f=f, n=n)


def _arithmetic(rng: random.Random) -> str:
    a, b, c = rng.randint(2, 60), rng.randint(2, 60), rng.randint(2, 12)
    name, thing = rng.choice(NAMES), rng.choice(_COUNTABLE)
    form = rng.choice(
        (
            "What is {a} plus {b}?",
            "Calculate {a} × {b} step by step.",
            "{n} has {a} {t} and buys {b} more. How many {t} does {n} have now?",
            "{n} shares {a} {t} among {c} friends. How many does each get, and how many are left?",
            "A box holds {c} {t}. How many boxes are needed for {a} {t}? Show each step.",
            "Solve {c}x + {b} = {a} and explain the steps.",
            "What is {b}% of {a}? Show the computation.",
            "A train covers {a} kilometres in {c} hours. What is its average speed?",
            "Find the average of {a}, {b} and {c}.",
            "{t} cost {c} euros each. How much do {b} of them cost with a discount of 10%?",
            "The sides of a rectangle are {a} cm and {b} cm. Compute its area and perimeter.",
            "If {c} workers need {a} days, how long do {b} workers need? Explain.",
            "Convert {a} kilometres to metres and to miles.",
        )
    )
    return form.format(a=a, b=b, c=c, n=name, t=thing)


def _data(rng: random.Random) -> str:
    keys = ", ".join(rng.sample(_FIELDS, rng.randint(2, 4)))
    rows = "; ".join(
        f"{i} {rng.choice(OBJECTS)} {rng.randint(1, 40)}" for i in range(1, rng.randint(3, 5))
    )
    form = rng.choice(
        (
            "Return only a {f} list of {n} {k} with the keys {s}.",
            "Write a {f} example that describes one of the {k}, with {s}.",
            "Give me {n} {k} as {f} with the fields {s}.",
            "Make a table of {n} {k} with the columns {s}.",
            "Convert this to {f}: {r}.",
            "Write a JSON object with the keys {s} for {o}.",
            "List {n} {k} with {s}, one a line.",
        )
    )
    return form.format(
        f=rng.choice(FORMATS),
        n=rng.randint(2, 8),
        k=rng.choice(_RECORDS),
        s=keys,
        r=rows,
        o=rng.choice(OBJECTS),
    )


def _text(rng: random.Random) -> str:
    text = " ".join(
        form.format(
            n=rng.choice(NAMES),
            l=rng.choice(PLACES),
            o=rng.choice(OBJECTS),
            c=rng.choice(CONCEPTS),
            a=rng.choice(ANIMALS),
            x=rng.randint(2, 900),
        )
        for form in rng.sample(SENTENCES, rng.randint(3, 6))
    )
    order = rng.choice(
        (
            "Summarize this text in one sentence:",
            "Summarize the following text:",
            "Write a title for this text:",
            "Rewrite this text in a friendly tone:",
            "Rewrite this text as a list of bullet points:",
            "Which numbers are in this text? List them.",
            "Correct the grammar of this text:",
            "Translate this text into French:",
            "What is the main idea of this text?",
            "Repeat this text, then continue it:",
            "Answer with a quote from the text: who is it about?",
        )
    )
    return f"{order}\n\n{text}"


def _vietnamese(rng: random.Random) -> str:
    return rng.choice(VIETNAMESE_FORMS).format(t=rng.choice(VIETNAMESE_TOPICS))


_RECORDS = (
    "books",
    "users",
    "orders",
    "students",
    "cities",
    "movies",
    "plants",
    "invoices",
    "songs",
    "employees",
    "recipes",
    "planets",
    "cars",
    "events",
    "tickets",
    "games",
    "messages",
    "sensors",
    "points",
    "files",
)
_FIELDS = (
    "name",
    "price",
    "age",
    "date",
    "color",
    "size",
    "rating",
    "email",
    "weight",
    "title",
    "author",
    "score",
    "status",
    "length",
    "year",
    "count",
    "address",
    "category",
    "height",
    "id",
)
_COUNTABLE = (
    "apples",
    "marbles",
    "tickets",
    "cookies",
    "pencils",
    "stamps",
    "chairs",
    "bottles",
    "coins",
    "cards",
)
_KINDS: tuple[tuple[Form, int], ...] = (
    (_explain, 20),
    (_chat, 18),
    (_write, 12),
    (_code, 14),
    (_edit, 9),
    (_arithmetic, 10),
    (_data, 9),
    (_text, 9),
    (_vietnamese, 8),
)
