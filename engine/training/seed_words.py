"""What the forms of `seeds` are filled with."""

from __future__ import annotations


def _list(text: str) -> tuple[str, ...]:
    return tuple(" ".join(text.split()).split("; "))


CONCEPTS: tuple[str, ...] = _list(
    """photosynthesis; gravity; democracy; the water cycle; supply and demand; evolution; volcanoes;
    the Roman Empire; jazz music; the human heart; recycling; solar energy; black holes; meditation;
    the Renaissance; vaccines; climate change; chess; the stock market; migration of birds;
    electricity; friendship; the internet; dreams; the French Revolution; DNA; coral reefs; sleep;
    taxes; poetry; the moon; bicycles; glaciers; memory; public transport; tea; the printing press;
    earthquakes; the olympic games; honey; rainbows; time zones; insurance; fermentation; magnets;
    the immune system; architecture; rivers; sound waves; the scientific method; minimalism;
    philosophy; urban gardening; nuclear power; the silk road; tides; justice; creativity; soap;
    human rights; the alphabet; paper; satellites; the digestive system; deserts; opera; chocolate;
    robots; globalization; the Great Wall of China; atoms; bees; money; stress; optical illusions;
    remote work; storytelling; museums; rain forests; the piano; teamwork; leap years; mirrors;
    the speed of light; bread; advertising; whales; courage; weather forecasts; the compass"""
)
TECHNICAL: tuple[str, ...] = _list(
    """recursion; a hash table; machine learning; an operating system; HTTP; a database index;
    object-oriented programming; encryption; a neural network; version control; a compiler; an API;
    cloud computing; a linked list; garbage collection; unit testing; a firewall; big O notation;
    the binary system; a virtual machine; multithreading; a regular expression; a pointer in C;
    caching; a load balancer; functional programming; a stack overflow; SQL joins; open source;
    continuous integration; a web browser; data compression; a search engine; blockchain"""
)
TASKS: tuple[str, ...] = _list(
    """save money every month; learn a new language; sleep better; prepare for a job interview;
    grow tomatoes on a balcony; run a marathon; write a resume; stop procrastinating; cook pasta;
    train a puppy; plan a birthday party; read more books; start a small business; paint a room;
    make new friends in a new city; fix a flat tire; study for an exam; organize my desk;
    eat more vegetables; give a good presentation; take better photos; learn to swim; bake a cake;
    move to another country; manage my time; write a novel; reduce screen time; clean the kitchen;
    build a bookshelf; teach children to read; knit a scarf; negotiate a salary; back up my files;
    plan a road trip; improve my handwriting; make a website; choose a laptop; stay calm under
    stress; remember what I read; lose weight in a healthy way; host a dinner; learn the violin;
    repair a broken chair; apologize to someone; start a garden; speak in public; wake up early;
    invest a small sum; write clean code; debug a program; learn Python; set up a home network"""
)
PROBLEMS: tuple[str, ...] = (
    "I feel tired every afternoon.",
    "My computer is very slow today.",
    "I lost my keys again.",
    "My best friend is moving away.",
    "I have a headache.",
    "I have to write an essay by Friday and have not started.",
    "My cat does not eat her food.",
    "I am nervous about my first day at work.",
    "It has been raining all week.",
    "I have 20 dollars and need dinner for four people.",
    "My plants keep dying.",
    "I cannot decide which phone to buy.",
    "I had an argument with my sister.",
    "I am bored.",
    "My boss gives me too much work.",
    "I would like to try a new hobby.",
    "We have guests tonight and the oven is broken.",
    "I spilled coffee on my shirt.",
    "I want to surprise my parents on their anniversary.",
    "I am going camping for the first time.",
    "My son is afraid of the dark.",
    "I can't sleep before exams.",
    "I just finished a good book.",
    "I am planning a trip with my grandparents.",
)
PEOPLE: tuple[str, ...] = (
    "a child",
    "a beginner",
    "my teacher",
    "a customer",
    "my grandmother",
    "an old friend",
    "a student",
    "the mayor",
    "a new colleague",
    "my landlord",
    "a doctor",
    "an engineer",
    "my manager",
    "a tourist",
    "a farmer",
)
NAMES: tuple[str, ...] = (
    "Anna", "Ben", "Carlos", "Dana", "Elif", "Farid", "Grace", "Hiro", "Ines", "Jonas", "Kofi",
    "Lina", "Marta", "Noah", "Olga", "Pedro", "Rosa", "Sam", "Tara", "Uma", "Victor", "Yusuf",
)  # fmt: skip
ANIMALS: tuple[str, ...] = (
    "a fox", "an old dog", "a curious cat", "a young robot", "a shy dragon", "a lost sailor",
    "a gardener", "a clever crow", "a brave mouse", "a retired detective", "a tired baker",
    "a small owl", "a lonely king", "a girl with a kite", "a violin maker",
)  # fmt: skip
OBJECTS: tuple[str, ...] = (
    "a red umbrella", "an old map", "a wooden box", "a silver watch", "a broken radio", "a lamp",
    "a leather notebook", "a blue bicycle", "a warm blanket", "a coffee machine", "a green door",
    "a pair of boots", "a glass bottle", "a desk", "a camera", "a paper boat", "a golden key",
    "a backpack", "a garden chair", "headphones", "a telescope", "a birthday cake",
)  # fmt: skip
PLACES: tuple[str, ...] = (
    "Paris", "Tokyo", "a quiet village", "the desert", "New York", "a busy market", "the forest",
    "Rome", "a fishing port", "an empty school", "the mountains", "Cairo", "a space station",
    "Hanoi", "a hospital", "Berlin", "an island", "Mexico City", "a bakery", "the airport",
)  # fmt: skip
LANGUAGES: tuple[str, ...] = (
    "Python", "Python", "Python", "Python", "JavaScript", "JavaScript", "Java", "C", "C++", "Go",
    "Rust", "TypeScript", "bash", "SQL", "Ruby",
)  # fmt: skip
FORMATS: tuple[str, ...] = ("JSON", "JSON", "JSON", "JSON", "YAML", "CSV", "XML", "Markdown")
SENTENCES: tuple[str, ...] = (
    "{n} moved to {l} in the spring and opened a small shop.",
    "The shop sells {o} and {x} other things.",
    "Last year, {x} people visited {l} during the festival.",
    "Many of them wanted to learn more about {c}.",
    "According to {n}, the work takes about {x} minutes a day.",
    "Nobody expected that {a} would become so popular.",
    "The council of {l} decided to spend {x} euros on a new bridge.",
    "{n} and {o} were seen near the station at night.",
    "A group of students measured the temperature every {x} seconds.",
    "In the end, {c} was the subject of a long discussion.",
    "Since then, the number of members has grown to {x}.",
    "Every morning, {a} walks along the river to {l}.",
    "The first results were published {x} days later.",
    "{n} said that it was only a beginning.",
    "However, the cost of {o} has doubled since 1995.",
    "Experts say that {c} will change how we live.",
)
VIETNAMESE_FORMS: tuple[str, ...] = (
    "{t} là gì?",
    "Hãy giải thích về {t}.",
    "Hãy kể cho tôi nghe về {t}.",
    "Viết một đoạn văn ngắn về {t}.",
    "Làm thế nào để hiểu rõ hơn về {t}?",
    "Tại sao {t} lại quan trọng?",
    "Liệt kê năm điều thú vị về {t}.",
    "Cho tôi ba lời khuyên về {t}.",
    "Dịch sang tiếng Anh: {t}.",
    "Viết một bài thơ về {t}.",
)
VIETNAMESE_TOPICS: tuple[str, ...] = (
    "Hà Nội", "phở bò", "biển Đông", "năng lượng mặt trời", "học tiếng Anh", "sức khỏe",
    "gia đình", "con mèo", "mùa xuân", "lịch sử Việt Nam", "máy tính", "cây lúa", "bóng đá",
    "tình bạn", "giấc ngủ", "du lịch Đà Nẵng", "âm nhạc", "sách", "môi trường", "nước sạch",
    "trí tuệ nhân tạo", "tiết kiệm tiền", "Tết Nguyên Đán", "trà xanh", "lập trình",
)  # fmt: skip
