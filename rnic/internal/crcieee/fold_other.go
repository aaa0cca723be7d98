// No folding: the standard library computes all.

//go:build !amd64 || purego

package crcieee

const canFold = false

func fold(uint32, []byte) uint32             { panic(nothing) }
func foldCopy(uint32, []byte, []byte) uint32 { panic(nothing) }
func foldShift(uint32, int) uint32           { panic(nothing) }

const nothing = "crcieee: nothing to fold with"
