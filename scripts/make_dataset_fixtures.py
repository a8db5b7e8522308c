#!/usr/bin/env python3
"""Makes small datasets in the formats that the five benchmarks are published in, and what must be read from them.

    scripts/make_dataset_fixtures.py [OUT]     OUT is tests/fixtures/datasets

All content is made up here: tones, coloured squares, invented sentences. Each folder holds what a publisher would have
written, by the library that the publisher used (pyarrow, pandas, datasets), and expected.json says what rows and media
a reader must give: `rows` as JSON with names in place of media, `media` by name with what they are.

Needs from PyPI pyarrow, pandas, datasets, pillow and numpy.
"""

import base64
import datetime
import decimal
import gzip
import hashlib
import io
import json
import math
import os
import shutil
import struct
import sys
import tarfile

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
from PIL import Image

datasets.disable_progress_bars()


def tone(hz, rate, seconds=0.04):
    """A tone, as 32-bit floats."""
    t = np.arange(int(rate * seconds)) / rate
    return (0.5 * np.sin(2 * math.pi * hz * t)).astype(np.float32)


def wav(hz, rate=16000, seconds=0.04):
    """A tone as a WAV file of 16 bits."""
    data = (tone(hz, rate, seconds) * 32767).astype("<i2").tobytes()
    fmt = struct.pack("<HHIIHH", 1, 1, rate, rate * 2, 2, 16)
    riff = b"WAVEfmt " + struct.pack("<I", len(fmt)) + fmt + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(riff)) + riff


def picture(seed, kind="PNG", side=24):
    """A picture of random colours, large enough that its base64 has more than 1000 characters."""
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


def file_of(data):
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def samples_of(values, rate, kind):
    data = np.asarray(values, dtype={"f32": "<f4", "f64": "<f8", "i16": "<i2"}[kind]).tobytes()
    return {"rate": rate, "kind": kind, "samples": len(values), "sha256": hashlib.sha256(data).hexdigest()}


def dataset(columns, features):
    """A Dataset of the library, without the audio encoder that its `from_dict` asks for: the bytes are there already."""
    schema = datasets.Features(features).arrow_schema
    columns = {name: pa.array(values, schema.field(name).type) for name, values in columns.items()}
    return datasets.Dataset(pa.table(columns).replace_schema_metadata(schema.metadata))


class Out:
    """A folder of OUT, and what is expected of it."""

    def __init__(self, out, name):
        self.path = os.path.join(out, name)
        self.rows = []
        self.media = {}
        shutil.rmtree(self.path, ignore_errors=True)
        os.makedirs(self.path)

    def at(self, name):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def done(self):
        with open(self.at("expected.json"), "w", encoding="utf-8") as file:
            json.dump({"rows": self.rows, "media": self.media}, file, ensure_ascii=False, indent=1)
            file.write("\n")


def belebele(out, code, kind):
    """2M-Belebele: samples as lists of numbers, at two rates, by two speakers, with sentences and questions missing."""
    o = Out(out, f"2m-belebele-{kind}")
    number = {"f32": pa.float32(), "f64": pa.float64(), "i16": pa.int16()}[kind]
    many = pa.large_list if kind == "f64" else pa.list_
    audio = pa.struct([("wav", many(number)), ("sampling_rate", pa.int64())])
    segment = pa.struct([("metadata", pa.struct([("source", pa.string()), ("speaker", pa.int32())])), ("audio", audio)])
    schema = pa.schema(
        [
            ("link", pa.string()),
            ("question_number", pa.int64()),
            ("flores_passage", pa.string()),
            ("correct_answer_num", pa.string()),
            ("dialect", pa.string()),
            ("flores_sentences", pa.list_(pa.string())),
            ("audio_segments", pa.list_(pa.list_(segment))),
            ("unmatched_audio", pa.bool_()),
            ("question_audio", pa.list_(pa.struct([("audio", audio)]))),
        ]
    )
    values = {"f32": lambda v: v, "f64": lambda v: v.astype(np.float64) / 3, "i16": lambda v: (v * 32767).astype(np.int16)}
    file = f"{code}.parquet"
    table = []
    for row in range(5):
        segments, expected = [], []
        for sentence in range(3):
            if (row + sentence) % 4 == 3:  # no one read this sentence
                segments.append([])
                expected.append([])
                continue
            speakers, names = [], []
            for speaker in range(2 if sentence == 0 else 1):
                rate = 16000 if speaker == 0 else 48000
                data = values[kind](tone(200 + 50 * row + 10 * sentence + speaker, rate, 0.01))
                about = {"source": "fleurs" if rate == 16000 else "meta", "speaker": speaker}
                speakers.append({"metadata": about, "audio": {"wav": data.tolist(), "sampling_rate": rate}})
                name = f"{file}#{row}.audio_segments.{sentence}.{speaker}.audio.wav"
                names.append({"metadata": about, "audio": {"sampling_rate": rate, "wav": name}})
                o.media[name] = samples_of(data, rate, kind)
            segments.append(speakers)
            expected.append(names)
        question = None
        question_expected = None
        if row % 2 == 0:
            data = values[kind](tone(900 + row, 16000, 0.01))
            name = f"{file}#{row}.question_audio.0.audio.wav"
            question = [{"audio": {"wav": data.tolist(), "sampling_rate": 16000}}]
            question_expected = [{"audio": {"sampling_rate": 16000, "wav": name}}]
            o.media[name] = samples_of(data, 16000, kind)
        cells = {
            "link": f"https://example.org/{row // 2}",
            "question_number": row % 2 + 1,
            "flores_passage": f"ምዕራፍ {row}. Three sentences.",
            "correct_answer_num": str(row % 4 + 1),
            "dialect": code,
            "flores_sentences": [f"Sentence {row}.{s}." for s in range(3)],
            "audio_segments": segments,
            "unmatched_audio": any(not s for s in segments),
            "question_audio": question,
        }
        table.append(cells)
        o.rows.append(dict(cells, audio_segments=expected, question_audio=question_expected))
    codec = {"f32": "snappy", "f64": "zstd", "i16": "gzip"}[kind]
    pq.write_table(pa.Table.from_pylist(table, schema), o.at(file), row_group_size=2, compression=codec)
    o.done()


def simplevqa(out):
    """SimpleVQA: images as bare base64, beside a preview; and as structs, as re-uploads have them."""
    o = Out(out, "simplevqa")
    s = Out(out, "simplevqa-struct")
    plain, structs = [], []
    for row in range(6):
        data = picture(row, "PNG" if row % 2 else "JPEG")
        cells = {
            "data_id": row,
            "image_description": "",
            "language": "CN" if row < 3 else "EN",
            "question": f"图中第 {row} 个是什么？",
            "answer": f"答案 {row}",
        }
        text = base64.b64encode(data).decode()
        if row == 4:
            text = "\n".join(text[i : i + 76] for i in range(0, len(text), 76))
        plain.append({**cells, "image": text})
        o.rows.append({**cells, "image": f"test.parquet#{row}.image"})
        o.media[f"test.parquet#{row}.image"] = file_of(data)
        there = row != 5
        structs.append({**cells, "image": {"bytes": data if there else None, "path": f"images/{row}.png"}})
        s.rows.append({**cells, "image": f"test.parquet#{row}.image" if there else "images/5.png"})
        if there:
            s.media[f"test.parquet#{row}.image"] = file_of(data)
    pd.DataFrame(plain).to_parquet(o.at("test.parquet"), index=False)
    pd.DataFrame(plain[:2]).to_parquet(o.at("view_200.parquet"), index=False)
    schema = pa.schema([(n, pa.int64() if n == "data_id" else pa.string()) for n in plain[0] if n != "image"])
    schema = schema.append(pa.field("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])))
    pq.write_table(pa.Table.from_pylist(structs, schema), s.at("test.parquet"), row_group_size=2)
    with open(s.at("images/5.png"), "wb") as file:
        file.write(picture(5))
    o.done()
    s.done()


def ccfqa(out):
    """CCFQA: one row an utterance with an Audio column, in shards, written by datasets and by pandas."""
    o = Out(out, "ccfqa-datasets")
    p = Out(out, "ccfqa-pandas")
    rows = []
    for item in range(6):
        for lang in ("eng", "cmn"):
            data = wav(300 + 20 * item + (lang == "cmn"))
            text = {"id": item, "label": "Music", "lang": lang, "eng_q": f"Question {item}?", "cmn_q": f"问题 {item}？"}
            rows.append((text, {"bytes": data, "path": f"{lang}/{item}.wav"}))
    features = datasets.Features(
        {
            "id": datasets.Value("int64"),
            "label": datasets.ClassLabel(names=["Art", "Music"]),
            "lang": datasets.Value("string"),
            "eng_q": datasets.Value("string"),
            "cmn_q": datasets.Value("string"),
            "audio": datasets.Audio(sampling_rate=16000),
        }
    )
    for shard in range(2):
        part = rows[shard * 6 : shard * 6 + 6]
        name = f"data/test-{shard:05}-of-00002.parquet"
        columns = {key: [text[key] for text, _ in part] for key in part[0][0]}
        columns["label"] = [1] * len(part)
        columns["audio"] = [audio for _, audio in part]
        dataset(columns, features).to_parquet(o.at(name), batch_size=2)
        for row, (text, audio) in enumerate(part):
            o.rows.append({**text, "label": 1, "audio": f"{name}#{row}.audio"})
            o.media[f"{name}#{row}.audio"] = file_of(audio["bytes"])
    # A stray index and a float where a number is missing are what pandas is known for.
    frame = pd.DataFrame([{**text, "audio": audio["bytes"], "extra": None if i else 1.5} for i, (text, audio) in enumerate(rows)])
    frame = frame[frame.lang == "eng"]
    frame.to_parquet(p.at("test.parquet"), row_group_size=4)
    for row, index in enumerate(frame.index):
        text, audio = rows[index]
        p.rows.append({**text, "audio": f"test.parquet#{row}.audio", "extra": 1.5 if index == 0 else None})
        p.media[f"test.parquet#{row}.audio"] = file_of(audio["bytes"])
    o.done()
    p.done()


def cpqa(out):
    """CPQA: folders that save_to_disk wrote, nested and flat; the Arrow file form; compressed; with a dictionary."""
    nested = Out(out, "cpqa-nested")
    side = {"text": datasets.Value("string"), "audio": datasets.Audio(sampling_rate=16000)}
    features = datasets.Features(
        {"context": side, "instruction": side, "answer": side, "other_attributes": {"kind": datasets.Value("string")}}
    )
    rows = []
    for row in range(7):
        data = wav(400 + row)
        none = {"text": f"Question {row}?", "audio": None}
        rows.append(
            {
                "context": {"text": f"Passage {row}.", "audio": {"bytes": data, "path": None}},
                "instruction": none,
                "answer": {"text": f"Answer {row}.", "audio": None},
                "other_attributes": {"kind": "CP"},
            }
        )
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    test = dataset(columns, features)
    datasets.DatasetDict({"train": test.select(range(1)).flatten_indices(), "test": test}).save_to_disk(
        nested.path, num_shards={"train": 1, "test": 2}
    )
    for row, cells in enumerate(rows):
        shard, at = (0, row) if row < 4 else (1, row - 4)
        name = f"test/data-{shard:05}-of-00002.arrow#{at}.context.audio"
        nested.rows.append({**cells, "context": {"text": f"Passage {row}.", "audio": name}})
        nested.media[name] = file_of(cells["context"]["audio"]["bytes"])
    nested.done()

    flat = Out(out, "cpqa-flat")
    columns = {
        "context": [{"bytes": wav(500 + r), "path": f"{r}.wav"} if r != 2 else None for r in range(4)],
        "instruction": [f"Instruction {r}" for r in range(4)],
        "answer": [f"Answer {r}" for r in range(4)],
    }
    features = datasets.Features(
        {
            "context": datasets.Audio(sampling_rate=16000),
            "instruction": datasets.Value("string"),
            "answer": datasets.Value("string"),
        }
    )
    saved = dataset(columns, features)
    saved.save_to_disk(flat.path)
    name = "data-00000-of-00001.arrow"
    others = [Out(out, n) for n in ("arrow-file", "arrow-lz4", "arrow-zstd-file")]
    table = saved.data.table.combine_chunks()
    for o, kind, codec in zip(others, ("file", "stream", "file"), (None, "lz4", "zstd")):
        new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
        with new(o.at("test.arrow"), table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
            writer.write_table(table, max_chunksize=3)
    for o, file in zip([flat, *others], [name, "test.arrow", "test.arrow", "test.arrow"]):
        for r in range(4):
            there = columns["context"][r] is not None
            place = f"{file}#{r}.context"
            o.rows.append(
                {"context": place if there else None, "instruction": f"Instruction {r}", "answer": f"Answer {r}"}
            )
            if there:
                o.media[place] = file_of(columns["context"][r]["bytes"])
        o.done()


def ccfqa_archive(out):
    """CCFQA as the authors' archive and rows: a folder around the languages' folders, and what the Finder adds."""
    o = Out(out, "ccfqa-archive")
    languages = ["cmn", "eng", "fra", "jpn", "kor", "rus", "spa", "yue"]
    for n, (index, source) in enumerate([(7, "mooc"), (61, "mooc"), (1432, "mkqa")]):
        row = {"index": index, "source": source, "label": "History"}
        for m, code in enumerate(languages):
            name = f"{code}/{index}-2025010100000{m}.wav"
            row[code] = {"audio": name, "question": f"Question {n} in {code}?", "answer": f"Answer {n} {code}"}
            o.media[name] = wav(300 + 40 * n + 5 * m, seconds=0.02)
        o.rows.append(row)
    with gzip.GzipFile(o.at("audio.tar.gz"), "wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in [("._data", b"finder")] + [("data/" + name, data) for name, data in o.media.items()]:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    os.makedirs(o.at("jsonl"))
    with open(o.at("jsonl/test.jsonl"), "w", encoding="utf-8") as file:
        file.write("\n".join(json.dumps(row, ensure_ascii=False) for row in o.rows))
    o.media = {name: file_of(data) for name, data in o.media.items()}
    o.done()


def cfever(out):
    """CFEVER: evidence in two shapes, and no newline after the last row."""
    o = Out(out, "cfever")
    rows = [
        {"id": 1, "label": "supports", "claim": "甲是城市。", "evidence": [[[92, 59, "甲", 0], [92, 60, "乙_(樂團)", 3]]], "domain": "其他"},
        {"id": 2, "label": "NOT ENOUGH INFO", "claim": "乙在 丙。", "evidence": [[54, None, None, None]], "domain": "人物"},
    ]
    with open(o.at("test.jsonl"), "w", encoding="utf-8") as file:
        file.write("\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    o.rows = rows
    o.done()


def types(out):
    """Every type that may stand in a column, in Parquet and Arrow."""
    utc = datetime.timezone.utc
    moment = datetime.datetime(2026, 2, 3, 4, 5, 6, 789000)
    columns = [
        ("i8", pa.int8(), [-128, None], [-128, None]),
        ("u64", pa.uint64(), [2**64 - 1, 0], [2**64 - 1, 0]),
        ("i64", pa.int64(), [-(2**63), 1], [-(2**63), 1]),
        ("f32", pa.float32(), [0.1, float("nan")], [0.1, None]),
        ("f64", pa.float64(), [1e300, 2.0], [1e300, 2.0]),
        ("flag", pa.bool_(), [True, None], [True, None]),
        ("large", pa.large_string(), ["größer", ""], ["größer", ""]),
        ("nothing", pa.null(), [None, None], [None, None]),
        ("date", pa.date32(), [moment.date(), None], ["2026-02-03", None]),
        ("time", pa.time64("us"), [moment.time(), None], ["04:05:06.789", None]),
        ("moment", pa.timestamp("ms"), [moment, None], ["2026-02-03T04:05:06.789", None]),
        ("zoned", pa.timestamp("us", "UTC"), [moment.replace(tzinfo=utc), None], ["2026-02-03T04:05:06.789Z", None]),
        ("money", pa.decimal128(10, 2), [decimal.Decimal("-1.50"), None], ["-1.50", None]),
        ("texts", pa.list_(pa.string()), [["a", None], []], [["a", None], []]),
        ("fixed", pa.list_(pa.int32(), 2), [[1, 2], None], [[1, 2], None]),
        ("lists", pa.large_list(pa.list_(pa.int16())), [[[1], None, []], None], [[[1], None, []], None]),
        ("map", pa.map_(pa.string(), pa.int32()), [[("k", 1)], None], [{"k": 1}, None]),
        ("word", pa.dictionary(pa.int8(), pa.string()), ["red", None], ["red", None]),
        ("dotted.name", pa.struct([("a.b", pa.binary()), ("c", pa.int32())]), [{"a.b": b"RIFF", "c": 1}, None], None),
    ]
    table = pa.table({name: pa.array(values, kind) for name, kind, values, _ in columns})
    for name in ("types-parquet", "types-arrow"):
        o = Out(out, name)
        file = "test." + name.split("-")[1]
        for row in range(2):
            cells = {name: expected[row] for name, _, _, expected in columns if expected is not None}
            cells["dotted.name"] = {"a.b": f"{file}#{row}.dotted.name.a.b", "c": 1} if row == 0 else None
            o.rows.append(cells)
        o.media[f"{file}#0.dotted.name.a.b"] = file_of(b"RIFF")
        if file.endswith("parquet"):
            pq.write_table(table, o.at(file))
        else:
            with pa.ipc.new_stream(o.at(file), table.schema) as writer:
                writer.write_table(table)
        o.done()


def pages(out):
    """Many pages a row group, with checksums: what the tests damage."""
    o = Out(out, "pages")
    audio = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table(
        {
            "id": pa.array([f"id-{row}" for row in range(40)]),
            "audio": pa.array([{"bytes": wav(300 + row), "path": None} for row in range(40)], audio),
        }
    )
    pq.write_table(
        table,
        o.at("test.parquet"),
        row_group_size=20,
        compression="none",
        use_dictionary=False,
        data_page_size=2000,
        write_batch_size=2,
        write_page_checksum=True,
    )
    for row in range(40):
        name = f"test.parquet#{row}.audio"
        o.rows.append({"id": f"id-{row}", "audio": name})
        o.media[name] = file_of(wav(300 + row))
    o.done()


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "fixtures", "datasets")
    out = sys.argv[1] if len(sys.argv) > 1 else root
    belebele(out, "amh_Ethi", "f32")
    belebele(out, "heb_Hebr", "f64")
    belebele(out, "ibo_Latn", "i16")
    simplevqa(out)
    ccfqa(out)
    cpqa(out)
    ccfqa_archive(out)
    cfever(out)
    types(out)
    pages(out)


if __name__ == "__main__":
    main()
