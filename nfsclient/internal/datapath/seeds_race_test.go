//go:build race

// How many seeds of random operations are played with the race detector.

package datapath

const seeds = 50
