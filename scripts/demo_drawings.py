"""The closed world of the image demo: drawings of shapes, flags and digits, and questions about them.

A drawing is made twice: in colour, and as two maps that tell at every place which colour and which shape is
there. The maps teach the image encoder; they are in no test set.
"""

import io
import math
from dataclasses import dataclass, field

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

# English and Chinese names.
SHAPES = {
    "circle": "圆形",
    "square": "正方形",
    "triangle": "三角形",
    "star": "五角星",
    "cross": "十字",
    "ring": "圆环",
}
COLOURS = {
    "red": ("红色", (214, 32, 38)),
    "orange": ("橙色", (244, 130, 24)),
    "yellow": ("黄色", (248, 218, 40)),
    "green": ("绿色", (34, 150, 66)),
    "blue": ("蓝色", (36, 72, 190)),
    "purple": ("紫色", (134, 44, 160)),
    "black": ("黑色", (22, 22, 24)),
    "white": ("白色", (250, 250, 250)),
}
# What shapes are painted with; white is a colour of flags alone.
PAINTS = [name for name in COLOURS if name != "white"]
# Tips that stick out. Nobody is asked about those of a cross.
TIPS = {"circle": 0, "ring": 0, "triangle": 3, "square": 4, "star": 5}
# Country: Chinese name, capital, its Chinese name, how the flag is made, its colours.
FLAGS = {
    "France": ("法国", "Paris", "巴黎", "upright", ("blue", "white", "red")),
    "Italy": ("意大利", "Rome", "罗马", "upright", ("green", "white", "red")),
    "Ireland": ("爱尔兰", "Dublin", "都柏林", "upright", ("green", "white", "orange")),
    "Belgium": ("比利时", "Brussels", "布鲁塞尔", "upright", ("black", "yellow", "red")),
    "Germany": ("德国", "Berlin", "柏林", "level", ("black", "red", "yellow")),
    "Hungary": ("匈牙利", "Budapest", "布达佩斯", "level", ("red", "white", "green")),
    "Austria": ("奥地利", "Vienna", "维也纳", "level", ("red", "white", "red")),
    "Poland": ("波兰", "Warsaw", "华沙", "level", ("white", "red")),
    "Japan": ("日本", "Tokyo", "东京", "disc", ("white", "red")),
    "Sweden": ("瑞典", "Stockholm", "斯德哥尔摩", "cross", ("blue", "yellow")),
    "Finland": ("芬兰", "Helsinki", "赫尔辛基", "cross", ("white", "blue")),
    "Denmark": ("丹麦", "Copenhagen", "哥本哈根", "cross", ("red", "white")),
}
UNKNOWN = {"en": "unknown", "cn": "不知道"}

# What is asked: name, question in both languages, the simpler question behind it (itself, where there is
# none), and what the rows say about task and domain.
QUESTIONS = {
    "shape": ("Which shape is in the picture?", "图中是什么形状？", "shape", "recognition", "geometry"),
    "colour": (
        "What colour is the shape in the picture?",
        "图中的图形是什么颜色？",
        "shape",
        "attributes",
        "geometry",
    ),
    "tips": (
        "How many tips does the shape in the picture have?",
        "图中的图形有几个尖角？",
        "shape",
        "logic",
        "geometry",
    ),
    "count": ("How many shapes are in the picture?", "图中有几个图形？", "shape", "quantity", "geometry"),
    "largest_shape": (
        "Which shape is the largest in the picture?",
        "图中最大的是什么形状？",
        "largest_shape",
        "quantity",
        "geometry",
    ),
    "largest": (
        "What colour is the largest shape in the picture?",
        "图中最大的图形是什么颜色？",
        "largest_shape",
        "attributes",
        "geometry",
    ),
    "country": (
        "Which country has the flag in the picture?",
        "图中是哪个国家的国旗？",
        "country",
        "recognition",
        "countries",
    ),
    "capital": (
        "What is the capital of the country whose flag is in the picture?",
        "图中国旗所属国家的首都是哪里？",
        "country",
        "places",
        "countries",
    ),
    "digit": ("Which digit is in the picture?", "图中是哪个数字？", "digit", "text", "numbers"),
    "next": (
        "Which number comes after the digit in the picture?",
        "图中数字的下一个数是几？",
        "digit",
        "logic",
        "numbers",
    ),
}


def question(name, lang):
    """The words of a question."""
    return QUESTIONS[name][0 if lang == "en" else 1]


@dataclass
class Drawing:
    """A picture, the answers to its questions by name and language, and what only training sees."""

    image: Image.Image
    answers: dict = field(default_factory=dict)
    colours: Image.Image = None
    shapes: Image.Image = None
    targets: dict = field(default_factory=dict)


def arc(cx, cy, rx, ry, start, end, steps=14):
    """Points on an ellipse, angles in degrees, 0 to the right, clockwise."""
    angles = np.linspace(math.radians(start), math.radians(end), steps)
    return [(cx + rx * math.cos(a), cy + ry * math.sin(a)) for a in angles]


# Strokes of the digits in a box of 1 by 1.6.
DIGITS = [
    [arc(0.5, 0.8, 0.42, 0.74, 0, 360, 28)],
    [[(0.2, 0.4), (0.55, 0.06), (0.55, 1.54)]],
    [arc(0.5, 0.46, 0.4, 0.4, 180, 375) + [(0.1, 1.52), (0.92, 1.52)]],
    [arc(0.46, 0.44, 0.38, 0.38, 200, 450) + arc(0.46, 1.14, 0.42, 0.4, 270, 520)],
    [[(0.68, 1.54), (0.68, 0.06), (0.06, 1.1), (0.96, 1.1)]],
    [[(0.86, 0.08), (0.22, 0.08), (0.16, 0.72)] + arc(0.46, 1.06, 0.42, 0.47, 230, 510)],
    [[(0.72, 0.06), (0.3, 0.56)] + arc(0.5, 1.1, 0.4, 0.43, 200, 560, 24)],
    [[(0.08, 0.08), (0.92, 0.08), (0.4, 1.54)]],
    [arc(0.5, 0.43, 0.34, 0.36, 0, 360, 22), arc(0.5, 1.16, 0.42, 0.4, 0, 360, 24)],
    [arc(0.5, 0.48, 0.4, 0.42, 0, 360, 24) + [(0.86, 0.8), (0.62, 1.54)]],
]
# Pictures are drawn at twice their size.
FINE = 2


def turned(points, angle, cx, cy, scale):
    """Points turned, scaled and moved to a centre."""
    sin, cos = math.sin(angle), math.cos(angle)
    return [(cx + scale * (x * cos - y * sin), cy + scale * (x * sin + y * cos)) for x, y in points]


def outline(shape, rng):
    """The outer line of a shape about the origin, with a radius of about 1."""
    if shape == "square":
        return [(-0.82, -0.82), (0.82, -0.82), (0.82, 0.82), (-0.82, 0.82)]
    if shape == "triangle":
        return [(0, -1.05), (0.98, 0.72), (-0.98, 0.72)]
    if shape == "star":
        radii = [1.12 if i % 2 == 0 else 0.44 for i in range(10)]
        angles = [math.pi * (i / 5 - 0.5) for i in range(10)]
        return [(r * math.cos(a), r * math.sin(a)) for r, a in zip(radii, angles, strict=True)]
    if shape == "cross":
        a, b = rng.uniform(0.24, 0.32), 1.0
        corners = [(-a, -b), (a, -b), (a, -a), (b, -a), (b, a), (a, a)]
        return corners + [(-x, -y) for x, y in corners]
    return arc(0, 0, 0.94, 0.94, 0, 360, 40)


class Artist:
    """Makes drawings at random. `hard` makes small, pale and badly kept ones."""

    def __init__(self, rng, hard=0.0):
        self.rng = rng
        self.hard = hard

    def draw(self, size, kind=None, save=None):
        """A drawing of `size` (width, height), of a kind or any."""
        rng = self.rng
        kinds = dict(single=0.28, many=0.2, sizes=0.18, flag=0.2, digit=0.14)
        kind = kind or rng.choice(list(kinds), p=list(kinds.values()))
        self.size = size
        self.is_hard = rng.random() < self.hard
        shape = (size[0] * FINE, size[1] * FINE)
        self.picture = Image.new("RGB", shape, (0, 0, 0))
        self.colours = Image.new("L", shape, 0)
        self.shapes = Image.new("L", shape, 0)
        self.brushes = [ImageDraw.Draw(image) for image in (self.picture, self.colours, self.shapes)]
        drawing = Drawing(None, {}, self.colours, self.shapes, {})
        getattr(self, str(kind))(drawing)
        drawing.targets["hard"] = int(self.is_hard)
        drawing.image = self.finish(save)
        return drawing

    # Colours and background

    def paint(self, name):
        """A colour of that name, never the same."""
        base = np.array(COLOURS[name][1], float)
        spread = 14 if name in ("orange", "yellow", "red") else 20
        return tuple(int(v) for v in np.clip(base + self.rng.normal(0, spread / 2, 3), 0, 255))

    def background(self, avoid):
        """Fills the picture with something on which the colours can be seen."""
        rng = self.rng
        while True:
            grey = rng.uniform(190, 255)
            tint = rng.normal(0, 9, 3)
            ground = np.clip(grey + tint, 0, 255)
            if all(np.abs(ground - COLOURS[name][1]).sum() > 130 for name in avoid):
                break
        self.ground = ground
        brush = self.brushes[0]
        width, height = self.picture.size
        brush.rectangle([0, 0, width, height], fill=tuple(int(v) for v in ground))
        style = rng.random()
        if style < 0.15:  # stripes
            step = int(rng.integers(10, 30))
            other = tuple(int(v) for v in np.clip(ground + rng.normal(0, 7, 3), 0, 255))
            slant = int(rng.integers(-40, 40))
            for x in range(-60, width + 60, 2 * step):
                brush.line([(x, 0), (x + slant, height)], fill=other, width=step)
        elif style < 0.3:  # shade
            end = np.clip(ground + rng.normal(0, 10, 3), 0, 255)
            for y in range(0, height, 4):
                part = y / height
                colour = tuple(int(v) for v in ground * (1 - part) + end * part)
                brush.rectangle([0, y, width, y + 4], fill=colour)

    def faded(self, colour):
        """A colour nearer to the background, where the drawing is a hard one."""
        if not self.is_hard:
            return colour
        keep = self.rng.uniform(0.4, 0.75)
        return tuple(int(keep * c + (1 - keep) * g) for c, g in zip(colour, self.ground, strict=True))

    def put(self, shape, colour, cx, cy, radius):
        """One shape."""
        rng = self.rng
        angle = rng.uniform(-0.4, 0.4)
        points = turned(outline(shape, rng), angle, cx * FINE, cy * FINE, radius * FINE)
        paint = self.faded(self.paint(colour))
        fills = (paint, list(COLOURS).index(colour) + 1, list(SHAPES).index(shape) + 1)
        if shape == "ring":
            width = max(2, int(radius * FINE * rng.uniform(0.28, 0.4)))
            points = turned(outline(shape, rng), angle, cx * FINE, cy * FINE, radius * FINE - width / 2)
            for brush, fill in zip(self.brushes, fills, strict=True):
                brush.line([*points, points[1]], fill=fill, width=width, joint="curve")
            # For the encoder the hole belongs to the ring.
            for brush, fill in zip(self.brushes[1:], fills[1:], strict=True):
                brush.polygon(points, fill=fill)
            return
        for brush, fill in zip(self.brushes, fills, strict=True):
            brush.polygon(points, fill=fill)

    def places(self, radii, gap=1.15):
        """Centres of discs that do not meet, or None."""
        rng = self.rng
        width, height = self.size
        found = []
        for radius in radii:
            for _ in range(40):
                x = rng.uniform(radius, max(radius + 1, width - radius))
                y = rng.uniform(radius, max(radius + 1, height - radius))
                if all(math.hypot(x - a, y - b) > gap * (radius + r) for a, b, r in found):
                    found.append((x, y, radius))
                    break
            else:
                return None
        return found

    def word(self, names, value):
        """Both names of something."""
        entry = names[value]
        return dict(en=value, cn=entry if isinstance(entry, str) else entry[0])

    # Kinds

    def single(self, drawing):
        """One shape."""
        rng = self.rng
        shape = str(rng.choice(list(SHAPES)))
        colour = str(rng.choice(PAINTS))
        self.background([colour])
        side = min(self.size)
        radius = side * (rng.uniform(0.13, 0.2) if self.is_hard else rng.uniform(0.2, 0.46))
        radius = max(radius, 8)
        x, y, _ = self.places([radius])[0]
        self.put(shape, colour, x, y, radius)
        drawing.targets.update(shape=list(SHAPES).index(shape), colour=list(COLOURS).index(colour), count=0)
        drawing.answers = dict(shape=self.word(SHAPES, shape), colour=self.word(COLOURS, colour))
        if shape in TIPS:
            drawing.answers["tips"] = dict(en=str(TIPS[shape]), cn=str(TIPS[shape]))

    def many(self, drawing):
        """One to five alike shapes."""
        rng = self.rng
        shape = str(rng.choice(list(SHAPES)))
        colour = str(rng.choice(PAINTS))
        alike = rng.random() < 0.5
        number = int(rng.integers(1, 6))
        side = math.sqrt(self.size[0] * self.size[1])
        places = None
        while places is None:
            top = 0.24 if number < 3 else 0.19
            radius = max(7, side * rng.uniform(0.11, top) * (0.85 if self.is_hard else 1))
            radii = [max(6.5, radius * rng.uniform(0.85, 1.15)) for _ in range(number)]
            places = self.places(radii)
        colours = [colour if alike else str(rng.choice(PAINTS)) for _ in range(number)]
        self.background(colours)
        for (x, y, radius), paint in zip(places, colours, strict=True):
            self.put(shape, paint, x, y, radius)
        drawing.targets.update(shape=list(SHAPES).index(shape), count=number - 1)
        drawing.answers = dict(shape=self.word(SHAPES, shape), count=dict(en=str(number), cn=str(number)))
        if alike:
            drawing.targets["colour"] = list(COLOURS).index(colour)
            drawing.answers["colour"] = self.word(COLOURS, colour)

    def sizes(self, drawing):
        """One large shape and one to three small ones of other shapes and colours."""
        rng = self.rng
        number = int(rng.integers(1, 4))
        shapes = [str(s) for s in rng.permutation(list(SHAPES))[: number + 1]]
        colours = [str(c) for c in rng.permutation(PAINTS)[: number + 1]]
        side = math.sqrt(self.size[0] * self.size[1])
        places = None
        while places is None:
            large = max(13, side * rng.uniform(0.22, 0.32))
            ratio = (0.55, 0.72) if self.is_hard else (0.36, 0.6)
            places = self.places([large] + [max(6, large * rng.uniform(*ratio)) for _ in range(number)])
        self.background(colours)
        for (x, y, radius), shape, colour in zip(places, shapes, colours, strict=True):
            self.put(shape, colour, x, y, radius)
        drawing.targets.update(
            large_shape=list(SHAPES).index(shapes[0]), large_colour=list(COLOURS).index(colours[0])
        )
        drawing.targets["count"] = number
        drawing.answers = dict(
            largest_shape=self.word(SHAPES, shapes[0]),
            largest=self.word(COLOURS, colours[0]),
            count=dict(en=str(number + 1), cn=str(number + 1)),
        )

    def flag(self, drawing):
        """A flag on a wall."""
        rng = self.rng
        country = str(rng.choice(list(FLAGS)))
        cn, capital, capital_cn, make, colours = FLAGS[country]
        self.background([])
        width, height = self.size
        wide = rng.uniform(0.42, 0.6) if self.is_hard else rng.uniform(0.6, 0.92)
        w = width * wide
        h = min(w / rng.uniform(1.35, 1.7), 0.92 * height)
        w = min(w, h * 1.7)
        x = width / 2 + rng.uniform(-0.5, 0.5) * (width - w)
        y = height / 2 + rng.uniform(-0.5, 0.5) * (height - h)
        angle = rng.normal(0, 0.07)
        paints = {c: self.faded(self.paint(c)) for c in colours}

        def part(x0, y0, x1, y1, colour):
            # A rectangle in parts of the flag, as seen by all brushes.
            box = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
            points = [((a - 0.5) * w, (b - 0.5) * h) for a, b in box]
            points = turned(points, angle, x * FINE, y * FINE, FINE)
            self.brushes[0].polygon(points, fill=paints[colour])
            self.brushes[1].polygon(points, fill=list(COLOURS).index(colour) + 1)

        n = len(colours)
        if make == "upright":
            for i, colour in enumerate(colours):
                part(i / n, 0, (i + 1) / n, 1, colour)
        elif make == "level":
            for i, colour in enumerate(colours):
                part(0, i / n, 1, (i + 1) / n, colour)
        else:
            part(0, 0, 1, 1, colours[0])
        if make == "cross":
            part(0.3, 0, 0.42, 1, colours[1])
            part(0, 0.42, 1, 0.59, colours[1])
        if make == "disc":
            points = turned(arc(0, 0, 0.3 * h, 0.3 * h, 0, 360, 40), angle, x * FINE, y * FINE, FINE)
            self.brushes[0].polygon(points, fill=paints[colours[1]])
            self.brushes[1].polygon(points, fill=list(COLOURS).index(colours[1]) + 1)
        if rng.random() < 0.5:  # a thin line around it
            corners = [(-w / 2, -h / 2), (w / 2, -h / 2), (w / 2, h / 2), (-w / 2, h / 2)]
            points = turned(corners, angle, x * FINE, y * FINE, FINE)
            grey = int(rng.uniform(60, 160))
            self.brushes[0].line([*points, points[0]], fill=(grey, grey, grey), width=FINE)
        drawing.targets["country"] = list(FLAGS).index(country)
        drawing.answers = dict(country=dict(en=country, cn=cn), capital=dict(en=capital, cn=capital_cn))

    def digit(self, drawing):
        """A digit, drawn with a pen."""
        rng = self.rng
        digit = int(rng.integers(0, 10))
        colour = str(rng.choice(PAINTS))
        self.background([colour])
        width, height = self.size
        tall = height * (rng.uniform(0.32, 0.48) if self.is_hard else rng.uniform(0.5, 0.86))
        tall = max(min(tall, 1.4 * width), 20)
        scale = tall / 1.6
        half = 0.62 * tall
        x = rng.uniform(min(half * 0.8, width / 2), max(width - half * 0.8, width / 2 + 0.1))
        y = rng.uniform(min(half, height / 2), max(height - half, height / 2 + 0.1))
        angle = rng.normal(0, 0.13)
        slant, stretch = rng.normal(0, 0.08), rng.uniform(0.85, 1.15)
        pen = max(3, int(scale * FINE * rng.uniform(0.13, 0.26)))
        paint = self.faded(self.paint(colour))
        fills = (paint, list(COLOURS).index(colour) + 1)
        for stroke in DIGITS[digit]:
            points = [((px - 0.5) * stretch - slant * (py - 0.8), py - 0.8) for px, py in stroke]
            points = turned(points, angle, x * FINE, y * FINE, scale * FINE)
            for brush, fill in zip(self.brushes, fills, strict=False):
                brush.line(points, fill=fill, width=pen, joint="curve")
                for end in (points[0], points[-1]):
                    r = pen / 2
                    brush.ellipse([end[0] - r, end[1] - r, end[0] + r, end[1] + r], fill=fill)
        drawing.targets["digit"] = digit
        drawing.answers = dict(digit=dict(en=str(digit), cn=str(digit)))
        if digit < 9:
            drawing.answers["next"] = dict(en=str(digit + 1), cn=str(digit + 1))

    # What a camera and a file do

    def finish(self, save):
        """The picture in its own size, with noise; `save` is a way to keep it, else one is drawn by lot."""
        rng = self.rng
        picture = self.picture.resize(self.size, Image.Resampling.BOX)
        if rng.random() < (0.7 if self.is_hard else 0.15):
            picture = picture.filter(ImageFilter.GaussianBlur(rng.uniform(0.4, 0.9)))
        noise = rng.uniform(6, 18) if self.is_hard else rng.choice([0, 0, rng.uniform(0, 9)])
        if noise:
            pixels = np.asarray(picture, np.float32)
            pixels = pixels + rng.standard_normal(pixels.shape, np.float32) * noise
            picture = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
        if save is None and rng.random() < (0.5 if self.is_hard else 0.1):
            kept = io.BytesIO()
            quality = int(rng.integers(25, 60) if self.is_hard else rng.integers(50, 95))
            picture.save(kept, "JPEG", quality=quality)
            picture = Image.open(kept).convert("RGB")
        return picture
