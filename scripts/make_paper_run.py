#!/usr/bin/env python3
"""Makes the data of a full CCFQA run: 1,000 invented items in eight languages, 64,000 answers to written and 64,000 to
spoken questions, and a config that takes these answers and has them judged by a server at port 8001.

    python3 scripts/make_paper_run.py target/paper-run
    cargo build --release && cargo build --release --example loopback_server
    target/release/examples/loopback_server --port 8001 --answers yes,no,unknown &
    target/release/harness run target/paper-run/paper.toml --results target/paper-run/results   # 128,000 answers and verdicts
    /usr/bin/time -v target/release/harness score paper --results target/paper-run/results

The last command is the one whose time and memory count. No text of the benchmark is in it.
"""

import json
import random
import sys
from pathlib import Path

LANGUAGES = ["cmn", "eng", "fra", "jpn", "kor", "rus", "spa", "yue"]
WORDS = {
    "cmn": "山 水 城 河 东 西 南 北 大 小 年 月 花 海",
    "eng": "North River Stone Mill Harbour Upper Lake Saint Green Valley Bridge",
    "fra": "Rivière Pierre Moulin Port Lac Saint Vert Vallée Pont Haut",
    "jpn": "やま かわ まち うみ ひがし にし みなみ きた はな さくら",
    "kor": "산 강 도시 바다 동 서 남 북 꽃 달",
    "rus": "Река Камень Мельница Порт Озеро Святой Зелёный Долина Мост",
    "spa": "Río Piedra Molino Puerto Lago San Verde Valle Puente Alto",
    "yue": "山 水 城 河 東 西 南 北 大 細 年 月 花 海",
}
CONFIG = """# Made by scripts/make_paper_run.py.
[run]
name = "paper"

[model]
kind = "replay"
files = ["answers.jsonl"]
fields = { id = "id", src = "src", tgt = "tgt", condition = "condition", answer = "answer" }

[judge]
name = "loopback"

[judge.model]
kind = "openai"
model = "gemma-3-27b-it"
base_url = "http://127.0.0.1:8001/v1"
revision = "1"

[judge.model.flow]
concurrency = 64

[judge.generation]
max_new_tokens = 64

[[benchmark]]
name = "ccfqa"
data = "rows.jsonl"
conditions = ["qa", "xqa", "sqa", "xsqa"]
prompt = "harness"
allow_other_data = true
"""


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(443)

    def words(language: str, count: int) -> str:
        blank = "" if language in ("cmn", "jpn", "yue") else " "
        return blank.join(draw.choice(WORDS[language].split()) for _ in range(count))

    gold = {}
    with open(folder / "rows.jsonl", "w", encoding="utf-8") as rows:
        for index in range(1, 1001):
            row = {"index": index, "source": "mkqa" if index % 2 else "mooc", "label": f"Topic {index % 20}"}
            for language in LANGUAGES:
                gold[index, language] = words(language, draw.randint(1, 4))
                row[language] = {
                    "audio": f"{language}/{index}-20250101000000.wav",
                    "question": words(language, draw.randint(6, 14)) + "?",
                    "answer": gold[index, language],
                }
            rows.write(json.dumps(row, ensure_ascii=False) + "\n")
    with open(folder / "answers.jsonl", "w", encoding="utf-8") as answers:
        for condition in ("xqa", "xsqa"):
            for src in LANGUAGES:
                for tgt in LANGUAGES:
                    for index in range(1, 1001):
                        right = draw.random() < 0.3
                        text = gold[index, tgt] if right else words(tgt, draw.randint(1, 12))
                        if draw.random() < 0.1:
                            text = f"The answer is: {text}."
                        row = {"id": index, "src": src, "tgt": tgt, "condition": condition, "answer": text}
                        answers.write(json.dumps(row, ensure_ascii=False) + "\n")
    (folder / "paper.toml").write_text(CONFIG, encoding="utf-8")


if __name__ == "__main__":
    main()
