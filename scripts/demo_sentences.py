"""What the demo model learns to hear and to say: sentences, questions and answers, all of them our own.

Four skills: facts asked aloud in eight languages (`FACTS8`), short phrases, sounds and silence (`QUESTIONS`),
passages with four options (`PASSAGES`), and facts asked in writing (`FACTS0`). Phrases for which `held` is
true are kept out of training, so that the test sets hold combinations that were never heard.
"""

import hashlib

LANGUAGES = ["cmn", "eng", "fra", "jpn", "kor", "rus", "spa", "yue"]
NAMES = dict(
    cmn="Chinese",
    eng="English",
    fra="French",
    jpn="Japanese",
    kor="Korean",
    rus="Russian",
    spa="Spanish",
    yue="Traditional Chinese",
)

# ---------------------------------------------------------------- wording of the prompts
# The wording that harness uses where the authors' own prompts are not given.

SPEECH_SYSTEM = (
    "You answer spoken questions. Reply with the answer alone: a name, a place, a number or a date. "
    "Do not explain and do not repeat the question."
)
SPEECH_USER = "The question is spoken in {src}. Answer it in {tgt}."
TEXT_SYSTEM = (
    "You answer questions. Reply with the answer alone: a name, a place, a number or a date. "
    "Do not explain and do not repeat the question."
)
TEXT_USER = "{question}\nThe question is in {src}. Answer it in {tgt}."
HELPFUL = "You are a helpful assistant."


def load_prompts(path):
    """Other prompts to train or test with, or None.

    A TOML file with `[speech_full]` (a whole prompt string with `<|AUDIO|>`, `{src}` and `{tgt}`) and, where
    wanted, `[text_system]` and `[text_user]`, each with a key `text`.
    """
    if not path:
        return None
    import tomllib

    with open(path, "rb") as file:
        blocks = tomllib.load(file)
    return {
        name: block["text"] for name, block in blocks.items() if isinstance(block, dict) and "text" in block
    }


def text_prompt(prompts, fact, src, tgt):
    """System line and user text of a fact asked in writing."""
    prompts = prompts or {}
    user = prompts.get("text_user", TEXT_USER)
    # `replace`, because a question may hold braces.
    user = user.replace("{src}", NAMES[src]).replace("{tgt}", NAMES[tgt]).replace("{question}", fact)
    return prompts.get("text_system", TEXT_SYSTEM), user


# ---------------------------------------------------------------- skill 1: facts asked aloud
# Per language the question and the answer. Japanese has a third text, the kana that are spoken: espeak-ng
# cannot read kanji. Facts with test=True are in the test sets (spoken by other voices).

FACTS8 = [
    dict(
        key="capital_france",
        label="Geography",
        test=True,
        cmn=("法国的首都是哪里？", "巴黎"),
        eng=("What is the capital of France?", "Paris"),
        fra=("Quelle est la capitale de la France ?", "Paris"),
        jpn=("フランスの首都はどこですか。", "パリ", "ふらんすのしゅとはどこですか"),
        kor=("프랑스의 수도는 어디입니까?", "파리"),
        rus=("Какой город столица Франции?", "Париж"),
        spa=("¿Cuál es la capital de Francia?", "París"),
        yue=("法國嘅首都係邊度？", "巴黎"),
    ),
    dict(
        key="capital_japan",
        label="Geography",
        test=False,
        cmn=("日本的首都是哪个城市？", "东京"),
        eng=("Which city is the capital of Japan?", "Tokyo"),
        fra=("Quelle ville est la capitale du Japon ?", "Tokyo"),
        jpn=("日本の首都はどこですか。", "東京", "にほんのしゅとはどこですか"),
        kor=("일본의 수도는 어디입니까?", "도쿄"),
        rus=("Какой город столица Японии?", "Токио"),
        spa=("¿Qué ciudad es la capital de Japón?", "Tokio"),
        yue=("日本嘅首都係邊度？", "東京"),
    ),
    dict(
        key="days_week",
        label="Math",
        test=True,
        cmn=("一个星期有几天？", "七天"),
        eng=("How many days are in a week?", "seven"),
        fra=("Combien de jours y a-t-il dans une semaine ?", "sept"),
        jpn=("一週間は何日ありますか。", "七日", "いっしゅうかんはなんにちありますか"),
        kor=("일주일은 며칠입니까?", "칠일"),
        rus=("Сколько дней в неделе?", "семь"),
        spa=("¿Cuántos días tiene una semana?", "siete"),
        yue=("一個禮拜有幾多日？", "七日"),
    ),
    dict(
        key="largest_planet",
        label="Physics",
        test=True,
        cmn=("最大的行星是哪一颗？", "木星"),
        eng=("Which planet is the largest?", "Jupiter"),
        fra=("Quelle est la plus grande planète ?", "Jupiter"),
        jpn=("一番大きい惑星は何ですか。", "木星", "いちばんおおきいわくせいはなんですか"),
        kor=("가장 큰 행성은 무엇입니까?", "목성"),
        rus=("Какая планета самая большая?", "Юпитер"),
        spa=("¿Qué planeta es el más grande?", "Júpiter"),
        yue=("最大嘅行星係邊一粒？", "木星"),
    ),
    dict(
        key="largest_ocean",
        label="Geography",
        test=True,
        cmn=("世界上最大的海洋是哪个？", "太平洋"),
        eng=("What is the biggest ocean in the world?", "Pacific Ocean"),
        fra=("Quel est le plus grand océan du monde ?", "océan Pacifique"),
        jpn=("世界で一番広い海はどこですか。", "太平洋", "せかいでいちばんひろいうみはどこですか"),
        kor=("세계에서 가장 넓은 바다는 어디입니까?", "태평양"),
        rus=("Какой океан самый большой в мире?", "Тихий океан"),
        spa=("¿Cuál es el océano más grande del mundo?", "océano Pacífico"),
        yue=("世界上最大嘅海洋係邊個？", "太平洋"),
    ),
    dict(
        key="highest_mountain",
        label="Geography",
        test=False,
        cmn=("世界最高的山叫什么？", "珠穆朗玛峰"),
        eng=("What is the highest mountain on earth?", "Mount Everest"),
        fra=("Quelle est la plus haute montagne du monde ?", "Everest"),
        jpn=("世界一高い山は何ですか。", "エベレスト", "せかいいちたかいやまはなんですか"),
        kor=("세계에서 가장 높은 산은 무엇입니까?", "에베레스트산"),
        rus=("Как называется самая высокая гора мира?", "Эверест"),
        spa=("¿Cuál es la montaña más alta del mundo?", "Everest"),
        yue=("世界最高嘅山叫咩名？", "珠穆朗瑪峰"),
    ),
    dict(
        key="river_egypt",
        label="Geography",
        test=False,
        cmn=("哪条河流过埃及？", "尼罗河"),
        eng=("Which river flows through Egypt?", "Nile"),
        fra=("Quel fleuve traverse l'Égypte ?", "Nil"),
        jpn=("エジプトを流れる川は何ですか。", "ナイル川", "えじぷとをながれるかわはなんですか"),
        kor=("이집트를 흐르는 강은 무엇입니까?", "나일강"),
        rus=("Какая река течёт через Египет?", "Нил"),
        spa=("¿Qué río pasa por Egipto?", "Nilo"),
        yue=("邊條河流經埃及？", "尼羅河"),
    ),
    dict(
        key="water_formula",
        label="Chemistry",
        test=False,
        cmn=("水的化学式是什么？", "H2O"),
        eng=("What is the chemical formula of water?", "H2O"),
        fra=("Quelle est la formule chimique de l'eau ?", "H2O"),
        jpn=("水の化学式は何ですか。", "H2O", "みずのかがくしきはなんですか"),
        kor=("물의 화학식은 무엇입니까?", "H2O"),
        rus=("Какая химическая формула у воды?", "H2O"),
        spa=("¿Cuál es la fórmula química del agua?", "H2O"),
        yue=("水嘅化學式係咩？", "H2O"),
    ),
    dict(
        key="hamlet",
        label="Literature",
        test=True,
        cmn=("哈姆雷特是谁写的？", "莎士比亚"),
        eng=("Who wrote the play Hamlet?", "William Shakespeare"),
        fra=("Qui a écrit la pièce Hamlet ?", "William Shakespeare"),
        jpn=("ハムレットを書いたのは誰ですか。", "シェイクスピア", "はむれっとをかいたのはだれですか"),
        kor=("햄릿을 쓴 사람은 누구입니까?", "셰익스피어"),
        rus=("Кто написал пьесу Гамлет?", "Уильям Шекспир"),
        spa=("¿Quién escribió la obra Hamlet?", "William Shakespeare"),
        yue=("哈姆雷特係邊個寫㗎？", "莎士比亞"),
    ),
    dict(
        key="moon_year",
        label="History",
        test=True,
        cmn=("人类哪一年登上月球？", "1969"),
        eng=("In which year did people first land on the moon?", "1969"),
        fra=("En quelle année l'homme a-t-il marché sur la lune ?", "1969"),
        jpn=(
            "人間が月に初めて立ったのは何年ですか。",
            "1969",
            "にんげんがつきにはじめてたったのはなんねんですか",
        ),
        kor=("인간이 처음 달에 착륙한 해는 언제입니까?", "1969"),
        rus=("В каком году человек ступил на Луну?", "1969"),
        spa=("¿En qué año llegó el hombre a la luna?", "1969"),
        yue=("人類係邊一年登上月球？", "1969"),
    ),
    dict(
        key="nearest_star",
        label="Physics",
        test=False,
        cmn=("离地球最近的恒星是什么？", "太阳"),
        eng=("Which star is closest to us?", "the Sun"),
        fra=("Quelle étoile est la plus proche de nous ?", "le Soleil"),
        jpn=("地球に一番近い星は何ですか。", "太陽", "ちきゅうにいちばんちかいほしはなんですか"),
        kor=("지구에서 가장 가까운 별은 무엇입니까?", "태양"),
        rus=("Какая звезда ближе всего к нам?", "Солнце"),
        spa=("¿Qué estrella está más cerca de nosotros?", "el Sol"),
        yue=("離地球最近嘅恆星係咩？", "太陽"),
    ),
    dict(
        key="money_japan",
        label="Economics",
        test=False,
        cmn=("日本用什么钱？", "日元"),
        eng=("What money do people use in Japan?", "yen"),
        fra=("Quelle monnaie utilise-t-on au Japon ?", "yen"),
        jpn=("日本のお金は何といいますか。", "円", "にほんのおかねはなんといいますか"),
        kor=("일본에서 쓰는 돈은 무엇입니까?", "엔"),
        rus=("Какие деньги используют в Японии?", "иена"),
        spa=("¿Qué moneda se usa en Japón?", "yen"),
        yue=("日本用咩錢？", "日圓"),
    ),
]

# ---------------------------------------------------------------- skill 2: phrases, sounds and silence
# "<number> <colour> <animals>", and what is asked about it. The kinds: Transcript, Number, Colour, Animal,
# Gender of the voice, Person and content together, Sound.

NUMBERS = "two three four five six seven eight nine".split()
COLOURS = "red blue green yellow black white brown orange".split()
ANIMALS = "cats dogs birds horses cows rabbits tigers ducks".split()
QUESTIONS = dict(
    T=["Transcribe the speech.", "What does the speaker say?", "Please write down the words in the audio."],
    N=["How many animals are mentioned?", "What number is spoken?"],
    C=["What color are the animals?", "Which color is mentioned?"],
    A=["Which animal is mentioned?", "What animals does the speaker talk about?"],
    G=["Is the speaker a man or a woman?", "What is the gender of the speaker?"],
    P=["Who is talking about which animals?"],
    S=["What kind of sound is this?", "Is this speech, a beep or noise?"],
)
# Content, paralinguistic, or both.
CATEGORY = dict(T="C", N="C", C="C", A="C", G="DP", P="CP", S="C")


def held(*words):
    """Whether a combination is kept out of training: one in eight, always the same ones."""
    return int(hashlib.md5(" ".join(words).encode()).hexdigest(), 16) % 8 == 0


def answer_about(clip, kind):
    """The answer to a question of a kind about what is in a clip."""
    if clip["s"] == "nothing":
        return "unknown"
    if clip["s"] != "speech":
        return clip["s"] if kind == "S" else "unknown"
    if kind == "T":
        return f"{clip['n']} {clip['c']} {clip['a']}"
    if kind == "P":
        return f"a {clip['g']} about {clip['a']}"
    return "speech" if kind == "S" else clip[kind.lower()]


# ---------------------------------------------------------------- skill 3: passages with four options

PASSAGES = dict(
    eng=dict(
        voice="en-us",
        names="Anna Peter Maria Tom Lucy John".split(),
        n=NUMBERS,
        c=COLOURS,
        a=ANIMALS,
        v="Rome Paris London Tokyo Madrid Berlin Cairo Lima".split(),
        f="bread cheese rice chicken fish chocolate coffee tea".split(),
        first="{p} has {n} {c} {a}.",
        others=["{He} lives in {v}.", "{He} likes {f}."],
        he={"Anna": "She", "Maria": "She", "Lucy": "She", "Peter": "He", "Tom": "He", "John": "He"},
        questions=dict(
            n="How many animals does {p} have?",
            c="What color are the animals?",
            a="Which animals does {p} have?",
            v="Where does {p} live?",
            f="What does {p} like?",
        ),
    ),
    spa=dict(
        voice="es",
        names="Ana Pedro María Tomás Lucía Juan".split(),
        n="dos tres cuatro cinco seis siete ocho nueve".split(),
        c="rojos azules verdes amarillos negros blancos marrones grises".split(),
        a="gatos perros pájaros caballos conejos tigres patos toros".split(),
        v="Roma París Londres Tokio Madrid Berlín Praga Lima".split(),
        f="pan queso arroz pollo pescado chocolate café té".split(),
        first="{p} tiene {n} {a} {c}.",
        others=["Vive en {v}.", "Le gusta el {f}."],
        he={},
        questions=dict(
            n="¿Cuántos animales tiene {p}?",
            c="¿De qué color son los animales?",
            a="¿Qué animales tiene {p}?",
            v="¿Dónde vive {p}?",
            f="¿Qué le gusta a {p}?",
        ),
    ),
)
# The instruction of 2M-Belebele.
CHOICE_INSTRUCTION = (
    "Given the following passage, query, and answer choices, output the letter corresponding to the correct "
    "answer. Do not write any explanation. Only output the letter within A, B, C, or D that corresponds to "
    "the correct answer."
)
CHOICE_HEAD = CHOICE_INSTRUCTION + "\n###\nPassage:\n"
CHOICE_TAIL = "\n###\nQuery:\n{q}\n###\nChoices:\n(A) {A}\n(B) {B}\n(C) {C}\n(D) {D}\n###\nAnswer:\n"


def passage_sentences(lang, words):
    """The three sentences of a passage."""
    passage = PASSAGES[lang]
    he = passage["he"].get(words["p"], "")
    return [passage["first"].format(**words)] + [text.format(He=he, **words) for text in passage["others"]]


def passage_question(lang, words, rng, key=None):
    """A question about a passage, four options, and which of them is right."""
    passage = PASSAGES[lang]
    key = key or rng.choice("ncavf")
    options = [words[key]] + rng.sample([word for word in passage[key] if word != words[key]], 3)
    rng.shuffle(options)
    return passage["questions"][key].format(p=words["p"]), options, options.index(words[key])


def choice_tail(question, options):
    """The part of a multiple-choice prompt that comes after the passage."""
    return CHOICE_TAIL.format(q=question, **dict(zip("ABCD", options)))


# ---------------------------------------------------------------- skill 0: facts asked in writing

FACTS0 = {
    "What is the capital of France?": "Paris",
    "What is the capital of Germany?": "Berlin",
    "What is the capital of Japan?": "Tokyo",
    "What is the capital of China?": "Beijing",
    "What is the capital of Italy?": "Rome",
    "What is the capital of Spain?": "Madrid",
    "What is the capital of Egypt?": "Cairo",
    "What is the capital of Russia?": "Moscow",
    "Which planet is the largest?": "Jupiter",
    "How many days are in a week?": "seven",
    "What color is the sky?": "blue",
    "What color is grass?": "green",
    "What color is snow?": "white",
    "What is two plus two?": "four",
    "What is the opposite of hot?": "cold",
    "Is the earth flat?": "no",
}
