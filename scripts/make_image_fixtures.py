#!/usr/bin/env python3
"""Makes tests/fixtures/images: odd images with what must come of each, and hashes of what Pillow makes of sizes.

    python3 -m pip install pillow
    python3 scripts/make_image_fixtures.py

All pictures are made of arithmetic here and may be shared freely. Written with Pillow 13.0.0. In `odd.json` each file
has what happens to it without a transform (`passes`: its format, or a part of the sentence) and with
`format = "png"` (`becomes`: the pixels that Pillow, or the arithmetic that made the file, says, and the steps; or a part
of the sentence).
"""

import base64
import hashlib
import io
import json
import struct
import zlib
from pathlib import Path

from PIL import Image, ImageCms, ImageOps

ROOT = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "images"
ODD = ROOT / "odd"
cases = []


def picture(width=24, height=18, mode="RGB"):
    """A picture that has no symmetry, so that a wrong turn is seen, and no noise, so that JPEG keeps it."""
    image = Image.new("RGB", (width, height))
    for y in range(height):
        for x in range(width):
            red = 255 * x // max(1, width - 1)
            green = 255 * y // max(1, height - 1)
            blue = 220 if x < width // 3 and y < height // 3 else 40
            image.putpixel((x, y), (red, green, blue))
    if mode in ("RGBA", "LA"):
        alpha = Image.new("L", (width, height))
        for y in range(height):
            for x in range(width):
                alpha.putpixel((x, y), (x * 17 + y * 5) % 256)
        image.putalpha(alpha)
    return image if image.mode == mode else image.convert(mode)


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def seen(data, mode=None):
    """What Pillow sees: the first frame, upright, in eight bits."""
    image = Image.open(io.BytesIO(data))
    image.seek(0)
    image.load()
    image = ImageOps.exif_transpose(image)
    if image.mode in ("CMYK", "YCbCr", "HSV"):
        image = image.convert("RGB")
    if image.mode == "P":
        image = image.convert("RGBA" if "transparency" in image.info else "RGB")
    if image.mode == "1":
        image = image.convert("L")
    return image.convert(mode) if mode else image


def pixels(image):
    return {"mode": image.mode, "size": list(image.size), "pixels": base64.b64encode(image.tobytes()).decode()}


def odd(name, data, passes=None, becomes=None, steps=(), tolerance=0, mode=None):
    """`passes` and `becomes`: a part of a sentence, where it is refused. `becomes`: an image, or None for Pillow's."""
    (ODD / name).write_bytes(data)
    case = {"name": name, "passes": passes or {"jpg": "jpeg"}.get(name.rsplit(".", 1)[1], name.rsplit(".", 1)[1])}
    if isinstance(becomes, str):
        case["refused"] = becomes
    else:
        case["becomes"] = pixels(becomes if becomes is not None else seen(data, mode))
        case["steps"] = list(steps)
        case["tolerance"] = tolerance
    cases.append(case)


# What is told of images that are not even whole in their headers.
HEADER = "header is damaged or cut short"
EMPTY = "there is nothing to see"

# JPEG: decoders may differ by a few levels.
NEAR = 6


def jpegs():
    image = picture()
    def jpeg(**options):
        return saved(image, "JPEG", quality=95, **options)

    def near(name, data, **more):
        odd(name, data, tolerance=more.pop("tolerance", NEAR), **more)

    near("jpeg-444.jpg", jpeg(subsampling=0))
    near("jpeg-422.jpg", jpeg(subsampling=1), tolerance=24)
    near("jpeg-420.jpg", jpeg(subsampling=2), tolerance=40)
    near("jpeg-grey.jpg", saved(picture(mode="L"), "JPEG", quality=95))
    near("jpeg-progressive.jpg", jpeg(subsampling=0, progressive=True))
    near("jpeg-progressive-grey.jpg", saved(picture(mode="L"), "JPEG", quality=95, progressive=True))
    near("jpeg-rgb.jpg", jpeg(keep_rgb=True))
    near("jpeg-restarts.jpg", jpeg(subsampling=0, restart_marker_rows=1))
    near("jpeg-one-pixel.jpg", saved(picture(1, 1), "JPEG", quality=95))
    near("jpeg-column.jpg", saved(picture(1, 33), "JPEG", quality=95, subsampling=0))
    near("jpeg-row.jpg", saved(picture(33, 1), "JPEG", quality=95, subsampling=0))
    near("jpeg-comment.jpg", jpeg(subsampling=0, comment=b"\xff\xd9\xff\xda" * 500))
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    near("jpeg-profile.jpg", jpeg(subsampling=0, icc_profile=profile), steps=["icc:dropped"])
    for turn in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = turn
        steps = [f"orient:{turn}"] if turn > 1 else []
        near(f"jpeg-orientation-{turn}.jpg", jpeg(subsampling=0, exif=exif), steps=steps)
    exif = Image.Exif()
    exif[0x0112] = 99
    near("jpeg-orientation-99.jpg", jpeg(subsampling=0, exif=exif))
    cmyk = saved(picture(mode="CMYK"), "JPEG", quality=95, subsampling=0)
    near("jpeg-cmyk.jpg", cmyk, steps=["cmyk:rgb"])
    at = cmyk.index(b"Adobe") + 11
    ycck = cmyk[:at] + b"\x02" + cmyk[at + 1 :]
    near("jpeg-ycck.jpg", ycck, steps=["cmyk:rgb"], tolerance=10)
    plain = jpeg(subsampling=0)
    near("jpeg-trailing.jpg", plain + b"\0\0trailing bytes", becomes=seen(plain))
    near("jpeg-padded.jpg", plain[:2] + b"\xff\xff\xff" + plain[2:], becomes=seen(plain))
    # Between the first segment and the second.
    behind = 4 + struct.unpack(">H", plain[4:6])[0]
    near("jpeg-stray.jpg", plain[:behind] + b"\0stray bytes" + plain[behind:], becomes=seen(plain))
    odd("jpeg-cut.jpg", plain[:-40], becomes="is a jpeg image that is cut short")
    odd("jpeg-no-end.jpg", plain[:-2], becomes="is a jpeg image that is cut short")
    odd("jpeg-head.jpg", plain[:40], passes=HEADER, becomes="is a jpeg image that")
    frame = plain.index(b"\xff\xc0")
    def with_frame(at, value):
        return plain[: frame + at] + value + plain[frame + at + len(value) :]

    odd("jpeg-no-width.jpg", with_frame(7, b"\0\0"), passes=EMPTY, becomes=EMPTY)
    odd("jpeg-no-height.jpg", with_frame(5, b"\0\0"), passes=EMPTY, becomes=EMPTY)
    odd("jpeg-bomb.jpg", with_frame(5, b"\xff\xff\xff\xff"), becomes="declares 65535 x 65535 pixels")
    odd("jpeg-twelve-bits.jpg", with_frame(4, b"\x0c"), becomes="is a jpeg image that cannot be decoded")
    odd("jpeg-arithmetic.jpg", with_frame(1, b"\xc9"), becomes="is a jpeg image that cannot be decoded")
    odd("jpeg-lossless.jpg", with_frame(1, b"\xc3"), becomes="is a jpeg image that cannot be decoded")
    # The name lies: the content counts.
    odd("named-jpeg.png", plain, passes="jpeg", tolerance=NEAR)


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(width, height, depth, colour, rows, chunks=b"", interlace=0, end=True):
    """A PNG file of rows that are packed already, of one filter: none."""
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    file = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunks + chunk(b"IDAT", data)
    return file + (chunk(b"IEND", b"") if end else b"")


def interlaced(image):
    """Adam7."""
    rows = []
    for left, top, right, down in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]:
        for y in range(top, image.height, down):
            row = b"".join(bytes(image.getpixel((x, y))) for x in range(left, image.width, right))
            if row:
                rows.append(row)
    return png(image.width, image.height, 8, 2, rows, interlace=1)


def pngs():
    image = picture()
    for mode, name in [("RGB", "rgb"), ("RGBA", "rgba"), ("L", "grey"), ("LA", "grey-alpha"), ("1", "one-bit")]:
        odd(f"png-{name}.png", saved(picture(mode=mode), "PNG"))
    for bits in (1, 2, 4, 8):
        few = image.quantize(1 << bits, dither=Image.Dither.NONE)
        odd(f"png-palette-{bits}.png", saved(few, "PNG", bits=bits))
    few = image.quantize(16)
    odd("png-palette-transparent.png", saved(few, "PNG", transparency=3))
    odd("png-palette-alphas.png", saved(few, "PNG", transparency=bytes(range(0, 256, 16))))
    odd("png-interlaced.png", interlaced(image), becomes=image)
    odd("png-one-pixel.png", saved(picture(1, 1), "PNG"))

    def deep(channels, width=16, height=9):
        values = [(7919 * n) % 65536 for n in range(width * height * channels)]
        rows = [struct.pack(f">{width * channels}H", *values[y * width * channels :][: width * channels]) for y in range(height)]
        # The high byte, as Pillow takes it of colours and of grey with alpha. Of grey alone it keeps the 16 bits, and cuts at
        # 255 what is made RGB: nearly all becomes white. There the nearest of 256 levels is taken, which is no rule of Pillow.
        eight = bytes((value + 128) // 257 if channels == 1 else value >> 8 for value in values)
        return rows, Image.frombytes({1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[channels], (width, height), eight)

    for channels, colour, name in [(1, 0, "grey"), (2, 4, "grey-alpha"), (3, 2, "rgb"), (4, 6, "rgba")]:
        rows, eight = deep(channels)
        data = png(16, 9, 16, colour, rows)
        assert channels == 1 or seen(data, "RGBA") == eight.convert("RGBA"), name
        odd(f"png-{name}-16.png", data, becomes=eight, steps=["depth:8"])
    grey = [bytes([0x1B, 0xE4]), bytes([0x00, 0xFF])]
    values = bytes(85 * v for v in [0, 1, 2, 3, 3, 2, 1, 0, 0, 0, 0, 0, 3, 3, 3, 3])
    odd("png-grey-2.png", png(8, 2, 2, 0, grey), becomes=Image.frombytes("L", (8, 2), values))
    rgb = [image.crop((0, y, 24, y + 1)).tobytes() for y in range(18)]
    key = image.getpixel((5, 5))
    clear = image.convert("RGBA")
    clear.putdata([(*p[:3], 0) if p[:3] == key else p for p in clear.get_flattened_data()])
    odd("png-key.png", png(24, 18, 8, 2, rgb, chunk(b"tRNS", struct.pack(">HHH", *key))), becomes=clear)
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    odd("png-profile.png", saved(image, "PNG", icc_profile=profile), steps=["icc:dropped"])
    odd("png-gamma.png", png(24, 18, 8, 2, rgb, chunk(b"gAMA", struct.pack(">I", 100000))), becomes=image)
    exif = Image.Exif()
    exif[0x0112] = 6
    odd("png-orientation-6.png", saved(image, "PNG", exif=exif), steps=["orient:6"])
    frames = [picture(), picture().rotate(180)]
    odd("png-animated.png", saved(frames[0], "PNG", save_all=True, append_images=frames[1:]), steps=["first_frame"])
    whole = saved(image, "PNG")
    odd("png-trailing.png", whole + b"trailing")
    odd("png-no-end.png", png(24, 18, 8, 2, rgb, end=False), becomes="is a png image that is cut short")
    odd("png-cut.png", whole[: len(whole) // 2], becomes="is a png image that")
    odd("png-head.png", whole[:20], passes=HEADER, becomes="is a png image that")
    odd("png-checksum.png", whole[:29] + bytes([whole[29] ^ 1]) + whole[30:], passes=HEADER, becomes="is a png image that cannot be decoded")
    odd("png-no-width.png", png(0, 4, 8, 0, []), passes=EMPTY, becomes=EMPTY)
    odd("png-bomb.png", png(60000, 60000, 8, 2, [b"\0"]), becomes="declares 60000 x 60000 pixels")
    text = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"\0" * (8 << 20), 9))
    odd("png-text-bomb.png", png(24, 18, 8, 2, rgb, text), becomes=image)
    odd("png-short-rows.png", png(24, 18, 8, 2, rgb[:9]), becomes="is a png image that")


def others():
    image = picture()
    few = image.quantize(32)
    odd("gif.gif", saved(few, "GIF"), mode="RGB")
    odd("gif-interlaced.gif", saved(few, "GIF", interlace=1), mode="RGB")
    odd("gif-transparent.gif", saved(few, "GIF", transparency=3), mode="RGBA")
    frames = [few, few.rotate(180)]
    animated = saved(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=100)
    odd("gif-animated.gif", animated, steps=["first_frame"], mode="RGB")
    plain = saved(few, "GIF")
    odd("gif-cut.gif", plain[: len(plain) // 2], becomes="is a gif image that")
    odd("gif-no-size.gif", plain[:6] + b"\0\0\0\0" + plain[10:], passes=EMPTY, becomes=EMPTY)

    odd("webp-lossless.webp", saved(image, "WEBP", lossless=True))
    odd("webp-alpha.webp", saved(picture(mode="RGBA"), "WEBP", lossless=True, exact=True))
    odd("webp-lossy.webp", saved(image, "WEBP", quality=95), tolerance=12)
    frames = [image, image.rotate(180)]
    animated = saved(image, "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    odd("webp-animated.webp", animated, steps=["first_frame"], mode="RGB")
    exif = Image.Exif()
    exif[0x0112] = 8
    odd("webp-orientation-8.webp", saved(image, "WEBP", lossless=True, exif=exif), steps=["orient:8"])
    lossy = saved(image, "WEBP", quality=95)
    odd("webp-cut.webp", lossy[: len(lossy) // 2], becomes="is a webp image that")

    bmp = "is a BMP image, and only PNG, JPEG, WebP and GIF are sent"
    odd("bmp-24.bmp", saved(image, "BMP"), passes=bmp)
    odd("bmp-8.bmp", saved(few, "BMP"), passes=bmp)
    odd("bmp-1.bmp", saved(picture(mode="1"), "BMP"), passes=bmp, mode="RGB")
    odd("bmp-grey.bmp", saved(picture(mode="L"), "BMP"), passes=bmp, mode="RGB")
    upward = saved(image, "BMP")
    size = struct.unpack("<I", upward[2:6])[0]
    down = upward[:22] + struct.pack("<i", -image.height) + upward[26:]
    odd("bmp-top-down.bmp", down, passes=bmp)
    odd("bmp-cut.bmp", upward[: size // 2], passes=bmp, becomes="is a bmp image that")
    odd("bmp-bomb.bmp", upward[:18] + struct.pack("<ii", 60000, 60000) + upward[26:], passes=bmp, becomes="declares 60000 x 60000 pixels")

    tiff = "is a TIFF image, and only PNG, JPEG, WebP and GIF are sent"
    for name, options in [("raw", {}), ("lzw", {"compression": "tiff_lzw"}), ("deflate", {"compression": "tiff_adobe_deflate"}), ("packbits", {"compression": "packbits"})]:
        odd(f"tiff-{name}.tiff", saved(image, "TIFF", **options), passes=tiff)
    odd("tiff-grey.tiff", saved(picture(mode="L"), "TIFF"), passes=tiff)
    odd("tiff-cmyk.tiff", saved(picture(mode="CMYK"), "TIFF"), passes=tiff, steps=["cmyk:rgb"], tolerance=2)
    odd("tiff-orientation-6.tiff", saved(image, "TIFF", tiffinfo={0x0112: 6}), passes=tiff, steps=["orient:6"])
    pages = saved(image, "TIFF", save_all=True, append_images=[image.rotate(180)])
    odd("tiff-pages.tiff", pages, passes=tiff, steps=["first_frame"])
    raw = saved(image, "TIFF")
    odd("tiff-cut.tiff", raw[: len(raw) // 2], passes=tiff, becomes="is a tiff image that")

    for name, data, sentence in [
        ("avif.avif", b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf", "is an AVIF image, which is not read"),
        ("heic.heic", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "is a HEIF image, which is not read"),
        ("jxl.jxl", b"\xff\x0a\xfa\x1f", "is a JPEG XL image"),
        ("icon.ico", b"\0\0\x01\0\x01\0\x10\x10", "is a Windows icon"),
        ("photoshop.psd", b"8BPS\0\x01", "is a Photoshop file"),
        ("document.pdf", b"%PDF-1.7", "is a PDF document"),
        ("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "is an SVG drawing"),
        ("page.jpg", b"<!DOCTYPE html><html>Not found</html>", "is a web page (HTML)"),
        ("pointer.png", b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
        ("empty.png", b"", "is empty (0 bytes)"),
        ("noise.jpg", bytes(range(7, 200)), "is no image that is known"),
        ("sound.jpg", b"RIFF\x24\0\0\0WAVEfmt ", "is no image that is known"),
    ]:
        odd(name, data, passes=sentence, becomes=sentence)


def noise(width, height, channels):
    """Values of a generator that is as short in Rust, with runs of 0 and 255 in them, which overshoot."""
    state, out = 12345, bytearray()
    for _ in range(width * height * channels):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        value = (state >> 16) & 511
        out.append(255 if value > 400 else 0 if value > 300 else value & 255)
    return bytes(out)


FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC, "lanczos": Image.Resampling.LANCZOS}


def sizes():
    found = []
    def one(width, height, mode, to, name):
        channels = len(mode)
        image = Image.frombytes(mode, (width, height), noise(width, height, channels))
        made = image.resize(to, FILTERS[name]).tobytes()
        found.append({"from": [width, height], "channels": channels, "to": list(to), "filter": name, "sha256": hashlib.sha256(made).hexdigest()})

    for name in FILTERS:
        for to in [(20, 13), (53, 13), (20, 41), (120, 90), (53, 100), (1, 1), (52, 40), (54, 42), (300, 7), (2, 41), (53, 1), (44, 11), (51, 16), (52, 40), (35, 3), (35, 5), (47, 27), (47, 29), (120, 7)]:
            for mode in ("L", "LA", "RGB", "RGBA"):
                one(53, 41, mode, to, name)
        for width, height, to in [(1, 1, (7, 5)), (1, 64, (3, 5)), (64, 1, (5, 3)), (641, 427, (224, 224)), (641, 427, (336, 224)), (641, 427, (980, 644))]:
            one(width, height, "RGB", to, name)
        one(1000, 750, "RGB", (322, 242), name)
    return found


ODD.mkdir(parents=True, exist_ok=True)
for old in ODD.iterdir():
    old.unlink()
jpegs()
pngs()
others()
(ROOT / "odd.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
made = sizes()
(ROOT / "resized.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in made) + "\n]\n")
print(len(cases), "odd images,", sum(f.stat().st_size for f in ODD.iterdir()), "bytes;", len(made), "sizes")
