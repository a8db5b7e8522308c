//! The shape of a schema: which columns hold media, and where in the tree of columns they stand.
//!
//! Media are known by their types, as the published sets have them:
//! - a struct of `bytes` (binary) and perhaps `path` (text): the Audio and Image columns of the `datasets` library;
//! - binary by itself;
//! - a struct of `wav` or `array` (a list of numbers) and `sampling_rate`: samples without a container, whatever the type
//!   of the numbers; which types are read is known where they are (`cells.rs`);
//! - text in a column called `image` or `images` that is long or begins as an image in base64 does.

use std::ops::Range;

use arrow_schema::{DataType, Field, Fields, Schema};

use crate::dataset::base64::is_image_name;

/// A column, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    /// Nothing below is media.
    Plain,
    /// A struct with media below, by field.
    Struct(Vec<(String, Shape)>),
    /// A list with media below.
    List(Box<Shape>),
    /// Media.
    Media(Media),
}

/// A column of media.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Media {
    /// Its number among the columns of media.
    pub(super) id: usize,
    pub(super) kind: Kind,
    /// The leaves below it, numbered through the whole schema.
    pub(super) leaves: Range<usize>,
    /// Those of them that hold the media themselves.
    pub(super) heavy: Range<usize>,
    /// Whether a list is above it: then its own leaves tell how long the list is.
    pub(super) in_list: bool,
}

/// How media are held.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// A struct of `bytes`, and of `path` if true.
    File { path: bool },
    /// Binary.
    Binary,
    /// A struct of a list of numbers of a type, in the field of this name, and `sampling_rate`.
    Samples { field: String, of: DataType },
    /// Text that may be base64.
    Base64,
}

/// The columns of a schema that become keys of rows, and its media.
#[derive(Clone, Debug)]
pub(super) struct Shapes {
    /// By column, in the order of the schema; `None` for columns that are left out.
    pub(super) columns: Vec<(String, Option<Shape>)>,
    pub(super) media: Vec<Media>,
}

impl Shapes {
    /// The shapes of a schema.
    pub(super) fn of(schema: &Schema) -> Self {
        let mut walk = Walk { leaf: 0, media: Vec::new() };
        let columns = schema.fields().iter().map(|field| {
            let shape = walk.field(field, false);
            // What pandas adds for its own use.
            let left_out = field.name().starts_with("__index_level_") && field.name().ends_with("__");
            (field.name().clone(), (!left_out).then_some(shape))
        });
        let columns = columns.collect();
        Self { columns, media: walk.media }
    }
}

struct Walk {
    leaf: usize,
    media: Vec<Media>,
}

impl Walk {
    fn field(&mut self, field: &Field, in_list: bool) -> Shape {
        let first = self.leaf;
        match field.data_type() {
            DataType::Struct(fields) => self.fields(fields, in_list),
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::ListView(item)
            | DataType::LargeListView(item) => match self.field_named(item, field.name(), true) {
                Shape::Plain => Shape::Plain,
                below => Shape::List(Box::new(below)),
            },
            DataType::Map(entries, _) => {
                self.leaf += leaves(entries.data_type());
                Shape::Plain
            }
            binary if is_binary(binary) => {
                self.leaf += 1;
                self.add(Kind::Binary, first, first..first + 1, in_list)
            }
            text if is_text(text) && is_image_name(field.name()) => {
                self.leaf += 1;
                self.add(Kind::Base64, first, first..first + 1, in_list)
            }
            other => {
                self.leaf += leaves(other);
                Shape::Plain
            }
        }
    }

    /// An item of a list goes by the name of the list.
    fn field_named(&mut self, field: &Field, name: &str, in_list: bool) -> Shape {
        self.field(&field.clone().with_name(name), in_list)
    }

    fn fields(&mut self, fields: &Fields, in_list: bool) -> Shape {
        let first = self.leaf;
        let find = |name: &str| fields.iter().position(|field| field.name() == name);
        let leaf_of =
            |at: usize| first + fields.iter().take(at).map(|field| leaves(field.data_type())).sum::<usize>();
        let of = |at: usize| fields.get(at).map(|field| field.data_type());
        let all = fields.iter().map(|field| leaves(field.data_type())).sum::<usize>();
        if let Some(at) = find("bytes").filter(|at| of(*at).is_some_and(is_binary)) {
            self.leaf = first + all;
            let path = find("path").and_then(of).is_some_and(is_text);
            return self.add(Kind::File { path }, first, leaf_of(at)..leaf_of(at) + 1, in_list);
        }
        let samples = ["wav", "array"].into_iter().find_map(|name| Some((name, find(name)?)));
        if let Some((name, at)) = samples
            && let Some(item) = of(at).and_then(samples_of)
            && find("sampling_rate").is_some()
        {
            self.leaf = first + all;
            let kind = Kind::Samples { field: name.to_owned(), of: item.clone() };
            return self.add(kind, first, leaf_of(at)..leaf_of(at) + 1, in_list);
        }
        let below: Vec<_> =
            fields.iter().map(|field| (field.name().clone(), self.field(field, in_list))).collect();
        if below.iter().all(|(_, shape)| *shape == Shape::Plain) {
            Shape::Plain
        } else {
            Shape::Struct(below)
        }
    }

    fn add(&mut self, kind: Kind, first: usize, heavy: Range<usize>, in_list: bool) -> Shape {
        let media = Media { id: self.media.len(), kind, leaves: first..self.leaf, heavy, in_list };
        self.media.push(media.clone());
        Shape::Media(media)
    }
}

/// The leaves of a type, as Parquet numbers its columns.
pub(super) fn leaves(kind: &DataType) -> usize {
    match kind {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::Map(item, _) => leaves(item.data_type()),
        _ => 1,
    }
}

pub(super) fn is_binary(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)
    )
}

pub(super) fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The type of the items of a list that may be samples. Numbers that are not read, text and further lists are among them:
/// left in the rows they would pass for no media at all, and as samples it is said what they are.
fn samples_of(kind: &DataType) -> Option<&DataType> {
    let (DataType::List(item)
    | DataType::LargeList(item)
    | DataType::FixedSizeList(item, _)
    | DataType::ListView(item)
    | DataType::LargeListView(item)) = kind
    else {
        return None;
    };
    let item = item.data_type();
    (item.is_numeric() || is_text(item) || samples_of(item).is_some()).then_some(item)
}
