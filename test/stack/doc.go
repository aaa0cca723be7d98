// Package stack tests the whole stack: a server and clients in one process, every size over every
// path, and bad input at every layer.
package stack
