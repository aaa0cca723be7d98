// No folding: the standard library computes all.

//go:build !amd64 || purego

package crcieee

const canFold = false

func fold(uint32, []byte) uint32 { panic("crcieee: nothing to fold with") }
