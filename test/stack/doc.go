// Package stack holds the tests of the whole stack: a server and clients in one
// process, every size through every way, and bad input at every floor.
package stack
