//go:build !race

// How many seeds of random operations are played without the race detector.

package datapath

const seeds = 1000
