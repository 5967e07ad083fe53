//! The text of the built-in lexicon.

/// Declares its files, in the order in which they are read.
macro_rules! built_in {
    ($($file:literal,)*) => {
        /// The built-in lexicon, its files one after the other.
        pub(crate) const BUILT_IN: &str =
            concat!($(include_str!(concat!("../../lexicon/", $file)),)*);

        /// The names and texts of the built-in lexicon's files.
        #[cfg(test)]
        pub(crate) const FILES: &[(&str, &str)] =
            &[$(($file, include_str!(concat!("../../lexicon/", $file))),)*];
    };
}

built_in! {
    "forms.txt",
    "grammar.txt",
    "words.txt",
    "synonyms/everyday.txt",
    "synonyms/technical.txt",
    "opposites/everyday.txt",
    "opposites/technical.txt",
    "classes/time.txt",
    "classes/places.txt",
    "classes/people.txt",
    "classes/things.txt",
    "classes/nature.txt",
    "classes/technical.txt",
    "languages/german.txt",
    "languages/french.txt",
    "languages/spanish.txt",
    "languages/portuguese.txt",
    "languages/italian.txt",
    "languages/chinese.txt",
    "languages/japanese.txt",
    "languages/others.txt",
}
