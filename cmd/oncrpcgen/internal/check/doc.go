// Overview: from a syntax tree to types with sizes, and programs with methods.

// Package check resolves names and constants in a parsed file, refuses files without a meaning in
// Go, and computes the properties from which code is written: sizes, recursion, chunks.
package check
