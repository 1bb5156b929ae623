//! The service as users meet it: the real binary, over HTTP and on the command line.

mod bad_input;
mod bulk;
mod command_line;
mod contract;
mod damage;
mod duplicates;
mod kill;
mod road;
mod server;
