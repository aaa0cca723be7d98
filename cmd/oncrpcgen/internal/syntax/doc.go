// Overview: from .x text to a syntax tree.

// Package syntax reads the RPC language (RFC 5531 §12, RFC 4506 §6): a lexer with a small
// preprocessor, and a parser.
package syntax
