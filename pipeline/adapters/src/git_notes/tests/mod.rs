//! Repositories of our own, read and written; with plain git as a witness where it is installed.

mod fixture;
mod plain_git;
mod reading;
mod scale;
mod undisturbed;
mod writing;
