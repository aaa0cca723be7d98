//go:build !race

// The number of random seeds without the race detector.

package datapath

const seeds = 1000
